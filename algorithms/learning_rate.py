"""Learning rates of policy and critic over the course of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from fctncalling.algorithms.config import TrainConfig


def learning_rates(config: TrainConfig, update: int) -> tuple[float, float]:
    """Return the learning rates of policy and critic in an update, counted from 0.

    They depend on the settings and the update's index alone, so a resumed run continues them. The
    warm-up rises to 1 in equal parts; the decay then falls from 1 and would reach --min_lr_ratio
    one update after the last. A critic that --critic_warmup_episodes has begun has no warm-up.
    """
    end = config.warmup_updates
    if update >= end:
        factor = _decay(config, update - end, config.num_updates - end)
        return factor * config.lr, factor * config.critic_lr
    rise = (update + 1) / end
    return rise * config.lr, (1.0 if config.critic_warmup_episodes else rise) * config.critic_lr


def _decay(config: TrainConfig, update: int, length: int) -> float:
    """Return the factor of both rates so many updates after the warm-up.

    The run ends after `length` updates.
    """
    if config.lr_schedule == "constant":
        return 1.0
    progress = min(1.0, update / max(1, length))
    left = 1.0 - progress
    if config.lr_schedule == "cosine":
        left = 0.5 * (1.0 + math.cos(math.pi * progress))
    return config.min_lr_ratio + (1.0 - config.min_lr_ratio) * left


def set_learning_rates(
    optimisers: Iterable[torch.optim.Optimizer | None], rates: Iterable[float]
) -> None:
    """Set the learning rate of each optimiser; None stands for one that is not used."""
    for optimiser, rate in zip(optimisers, rates, strict=True):
        for group in () if optimiser is None else optimiser.param_groups:
            group["lr"] = rate
