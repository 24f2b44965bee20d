"""Supervised stage of a training run: demonstrations learned before reinforcement learning."""

from fctncalling.algorithms.supervised import SupervisedLearner
from fctncalling.training.supervised.demonstrations import load_demonstrations
from fctncalling.training.supervised.stage import restored_learner, stage_is_ahead

__all__ = [
    "SupervisedLearner",
    "load_demonstrations",
    "restored_learner",
    "stage_is_ahead",
]
