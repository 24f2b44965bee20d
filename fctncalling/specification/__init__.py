"""Specification of functions: documents, lists of tools and their schemas, read into one form."""
