"""Makers of the embedded tasks and models: BFCL's format, closed vocabularies."""
