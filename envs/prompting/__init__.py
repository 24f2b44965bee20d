"""Prompts and tool schemas of tasks."""
