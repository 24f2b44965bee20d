"""Words: requests for functions from names and descriptions alone."""
