"""Checks of a model folder: its chat template, its tokenizer."""
