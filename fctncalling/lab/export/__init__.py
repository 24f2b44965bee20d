"""Export: a checkpoint as an ordinary model."""
