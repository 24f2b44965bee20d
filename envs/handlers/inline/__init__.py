"""Handlers of calls in the middle of a message."""
