"""Completion: every command and flag, for a shell."""
