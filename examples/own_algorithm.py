"""Custom algorithm: Monte Carlo returns minus the critic's values.

    cd examples
    fctncalling train --algorithm_name own_algorithm:MONTE_CARLO --dynamic_sampling 1 \
        --whiten_advantages false
    fctncalling view results/check/embedded/embedded/MONTE_CARLO

An algorithm is an estimate, a log-ratio, an average and whether there is a critic
(`algorithms/algorithm.py`); sampling, minibatches, clipping and the value loss stay the trainer's.
The flags let the estimate see every episode, and its advantages reach the loss as they are; the
start says so in one line. At the end stands the table of `make train`, before -> after.
"""

from __future__ import annotations

import torch

from fctncalling.algorithms.algorithm import (
    AdvantageEstimate,
    Algorithm,
    Trajectories,
    returns_to_go,
    token_log_ratio,
)
from fctncalling.algorithms.config import TrainConfig


def monte_carlo_estimate(trajectories: Trajectories, config: TrainConfig) -> AdvantageEstimate:
    """Return the rewards from each token's action on, minus the value, (E, L)."""
    returns = returns_to_go(trajectories, config.resolved_gamma).float()
    advantages = torch.where(trajectories.acted, returns - trajectories.values, 0.0)
    return AdvantageEstimate(advantages, returns, loss_mask=trajectories.acted)


MONTE_CARLO = Algorithm("MONTE_CARLO", monte_carlo_estimate, token_log_ratio, critic=True)
