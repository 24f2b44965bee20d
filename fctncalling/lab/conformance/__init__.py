"""Conformance: agreement of a scorer, a parser or an advantage function with exact answers."""
