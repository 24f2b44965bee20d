"""Comparison of final answers: numeric, AIME and symbolic."""
