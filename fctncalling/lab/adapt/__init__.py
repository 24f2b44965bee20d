"""Adapt: from a specification to a trained, measured, served caller, in one command."""
