"""Prompts and tool schemas that a model is shown of a task."""
