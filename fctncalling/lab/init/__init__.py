"""A first project: files to begin with."""
