"""Adaptive entropy coefficient (Skywork-OR1, arXiv:2505.22312, section 4.4)."""

from __future__ import annotations

from fctncalling.algorithms.config import TrainConfig


def next_entropy_coef(coef: float, entropy: float, config: TrainConfig) -> float:
    """Return the next update's entropy_coef.

    One step up if entropy was below --entropy_target, else one down.
    """
    if config.entropy_target is None:
        return coef
    step = config.entropy_coef_step
    return max(0.0, coef + step if entropy < config.entropy_target else coef - step)
