"""Minibatches of an update, and the microbatches that pass through the model one by one."""

from fctncalling.algorithms.minibatches.bootstrap import bootstrap_values
from fctncalling.algorithms.minibatches.padded_rows import microbatches
from fctncalling.algorithms.minibatches.plan import plan_minibatches, prepare_passes

__all__ = ["bootstrap_values", "microbatches", "plan_minibatches", "prepare_passes"]
