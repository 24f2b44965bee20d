"""Supervised fine-tuning on demonstrations."""

from fctncalling.algorithms.supervised.learner import SupervisedLearner, WarmStartConfig

__all__ = ["SupervisedLearner", "WarmStartConfig"]
