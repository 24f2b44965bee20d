"""Conformance: how far a scorer, a parser or an advantage agrees with what is known exactly."""
