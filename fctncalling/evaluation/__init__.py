"""Evaluation without training: agents, canaries, lint."""
