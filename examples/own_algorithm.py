"""Custom algorithms: Monte Carlo returns minus the critic's values, or the group's mean.

    cd examples
    fctncalling train --algorithm_name own_algorithm:MONTE_CARLO --dynamic_sampling 1 \
        --whiten_advantages false
    fctncalling view results/check/embedded/embedded/MONTE_CARLO

GROUP_MEAN wants --group_size 8 besides: episodes of one task are compared, without a critic.
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


def group_mean_estimate(trajectories: Trajectories, config: TrainConfig) -> AdvantageEstimate:
    """Return the return of each episode, minus the mean of its group's, at all tokens, (E, L)."""
    returns = returns_to_go(trajectories, config.resolved_gamma).float()
    of_episode, group = returns[:, 0], trajectories.group
    sums = torch.zeros(int(group.max()) + 1).to(of_episode).index_add(0, group, of_episode)
    mean = (sums / group.bincount())[group]
    advantages = torch.where(trajectories.acted, (of_episode - mean)[:, None], 0.0)
    return AdvantageEstimate(advantages, returns, loss_mask=trajectories.acted)


GROUP_MEAN = Algorithm("GROUP_MEAN", group_mean_estimate, token_log_ratio, critic=False)
