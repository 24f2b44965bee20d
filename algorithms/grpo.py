"""GRPO: group-relative advantages without a critic (DeepSeekMath, arXiv:2402.03300).

A group is the episodes of one task and one environment seed; only the sampled actions differ.

Variants by flag: the original's mean over each row (--loss_aggregation row_mean);
Dr. GRPO (arXiv:2503.20783; --group_std false --loss_aggregation token_sum); DAPO (arXiv:2503.14476;
--clip_high, token_mean and
--dynamic_sampling, without its length penalty); GSPO (arXiv:2507.18071; --sequence_ratio, with a
far smaller clip
range). Rewards of single steps count: in an episode's return, or in each action's own
(--group_credit step). Truncated episodes are compared as they are: without a critic there is no
bootstrap value.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fctncalling.algorithms.algorithm import (
    AdvantageEstimate,
    Algorithm,
    TokenGroups,
    Trajectories,
    broadcast_span_mean,
    returns_to_go,
)
from fctncalling.algorithms.config import TrainConfig

EPSILON = 1e-6  # a spread of outcomes below it is rounding


def grpo_estimate(trajectories: Trajectories, config: TrainConfig) -> AdvantageEstimate:
    """Return GRPO's estimate of advantages: the outcome less the group's mean outcome.

    With --group_credit episode the outcome is the episode's return, which only an explicit --gamma
    discounts; with step it is the reward to go from the token's action on, compared with the same
    action index of the group's other episodes.
    """
    returns = returns_to_go(trajectories, config.resolved_gamma)  # (E, L)
    number = trajectories.action_number()
    samples = trajectories.begins_action()
    if config.group_credit == "episode":
        returns, number, samples = (
            returns[:, :1].expand_as(returns),
            torch.zeros_like(number),
            samples & (number == 0),
        )
    # (E, L) tokens of equal index are compared with each other
    peers = trajectories.group[:, None] * (int(number.max()) + 1) + number
    advantages = returns - _group_mean(returns, peers, samples)
    spread = _group_mean(advantages.square(), peers, samples).sqrt()
    if config.group_std:
        advantages = advantages / (spread + EPSILON)
    advantages = torch.where(spread > EPSILON, advantages, 0.0)  # not rounding's
    return AdvantageEstimate(advantages.float(), returns.float(), loss_mask=trajectories.acted)


def grpo_log_ratio(token_log_ratios: Tensor, groups: TokenGroups, config: TrainConfig) -> Tensor:
    """Return GRPO's log-ratio: each token's, or with --sequence_ratio its row's mean (GSPO)."""
    if config.sequence_ratio:
        return broadcast_span_mean(token_log_ratios, groups.row)
    return token_log_ratios


def _group_mean(values: Tensor, peers: Tensor, samples: Tensor) -> Tensor:
    """Return at each token the mean of the values over the tokens of equal `peers` index, (E, L).

    Only tokens with `samples` true enter the mean.
    """
    sums, counts = (
        torch.zeros(int(peers.max()) + 1, dtype=values.dtype, device=values.device).index_add(
            0, peers[samples], weight[samples]
        )
        for weight in (values, torch.ones_like(values))
    )
    return (sums / counts.clamp(min=1.0))[peers]


GRPO = Algorithm("GRPO", grpo_estimate, grpo_log_ratio, critic=False)
