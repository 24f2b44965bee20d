"""Learning-rate schedule: warm-up, then constant, linear or cosine decay to the end of the run."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from fctncalling.algorithms.config import TrainConfig


def learning_rate_factor(config: TrainConfig, update: int) -> float:
    """Return the factor of --lr and --critic_lr in an update, counted from 0.

    It depends on the settings and the update's index alone, so a resumed run continues it. The
    warm-up rises to 1 in equal parts; the decay then falls from 1 and would reach --min_lr_ratio
    one update after the last.
    """
    if update < config.warmup_updates:
        return (update + 1) / config.warmup_updates
    if config.lr_schedule == "constant":
        return 1.0
    length = max(1, config.num_updates - config.warmup_updates)
    progress = min(1.0, (update - config.warmup_updates) / length)
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
