"""Task forge: tasks like BFCL's, proven by execution, made without a language model."""
