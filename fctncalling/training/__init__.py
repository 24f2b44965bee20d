"""Training runs, in which environments and models meet."""
