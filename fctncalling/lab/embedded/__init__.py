"""The makers of the embedded tasks: our own wording, BFCL's format, closed vocabularies."""
