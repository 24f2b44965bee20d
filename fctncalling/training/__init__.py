"""Training runs: environments and models meet."""
