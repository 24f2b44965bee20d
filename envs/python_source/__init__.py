"""Parsing and evaluation of Python source without eval."""
