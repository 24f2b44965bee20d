"""Rollout backends: where the episodes of a run are played."""

from fctncalling.training.rollouts.rollout_backends import (
    LocalRollout,
    Rollout,
    RolloutResult,
    RolloutRound,
)

__all__ = ["LocalRollout", "Rollout", "RolloutResult", "RolloutRound"]
