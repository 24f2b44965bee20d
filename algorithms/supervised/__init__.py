"""Supervised fine-tuning on demonstrations."""

from fctncalling.algorithms.supervised.learner import SupervisedConfig, SupervisedLearner

__all__ = ["SupervisedConfig", "SupervisedLearner"]
