"""Files of a run: checkpoints, logs, curves."""
