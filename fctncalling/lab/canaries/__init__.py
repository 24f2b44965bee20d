"""Canaries: degenerate policies on a data set."""
