"""Import of the official tasks out of their own wheel."""
