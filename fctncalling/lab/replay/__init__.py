"""Replay of logged episodes."""
