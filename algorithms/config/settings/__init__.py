"""Settings of a training run by subject: the parts of TrainConfig."""
