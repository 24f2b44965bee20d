"""The laboratory: what looks at, feeds or surrounds the environment and the trainer."""
