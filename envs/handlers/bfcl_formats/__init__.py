"""Handlers of BFCL's format-sensitivity return formats."""
