"""Supervised fine-tuning on demonstrations."""

from fctncalling.algorithms.supervised.fit import WarmStartConfig, fit
from fctncalling.algorithms.supervised.learner import SupervisedLearner

__all__ = ["SupervisedLearner", "WarmStartConfig", "fit"]
