"""Verdicts: replay of ground truths, judging of episodes."""
