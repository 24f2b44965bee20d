"""BFCL's API classes."""
