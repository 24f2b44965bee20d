"""Verdicts: ground truths replayed, episodes judged."""
