"""APPO: action-level PPO, one ratio, one advantage and one value an action. Not RLlib's
asynchronous PPO.

The surrogate of TWOSOME (Tan et al. 2024, arXiv:2401.14151) without its list of admissible actions:
under free generation there is nothing to normalise over, so --action_logprob_norm "token" is the
geometric mean of the token ratios, "sum" the true likelihood ratio, and "word" only a scale.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fctncalling.algorithms.advantages import action_gae
from fctncalling.algorithms.algorithm import (
    AdvantageEstimate,
    Algorithm,
    TokenGroups,
    Trajectories,
    span_mean,
    span_sum,
)
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.losses import MAX_LOG_RATIO


def estimate(timelines: Trajectories, config: TrainConfig) -> AdvantageEstimate:
    """Return an advantage and a target for every action, counted once: at its first token, where
    its value is read.
    """
    begins, number = timelines.begins_action(), timelines.action_number()
    shape = (len(begins), int(number.max()) + 1)  # (E, A)
    valid = torch.arange(shape[1], device=number.device) <= number[:, -1:]

    def by_action(at: Tensor) -> Tensor:
        return torch.zeros(shape, dtype=at.dtype, device=at.device).scatter_add_(1, number, at)

    rewards = by_action(torch.where(timelines.acted, timelines.rewards, 0.0))
    values = by_action(torch.where(begins, timelines.values, 0.0))

    def gae(lam: float) -> tuple[Tensor, Tensor]:
        return action_gae(
            rewards, values, valid, timelines.bootstrap, gamma=config.discount, lam=lam
        )

    advantages, returns = gae(config.lam)
    if config.lam_value is not None:
        returns = gae(config.lam_value)[1]
    return AdvantageEstimate(
        advantages.gather(1, number), returns.gather(1, number), counted=begins
    )


def log_ratio(token_log_ratios: Tensor, spans: TokenGroups, config: TrainConfig) -> Tensor:
    """Return the log-ratio of each token's action: the sum over its tokens, or that over their or
    its words' number.
    """
    total = span_sum(token_log_ratios, spans.action)
    if config.action_logprob_norm == "token":
        total = span_mean(token_log_ratios, spans.action)
    elif config.action_logprob_norm == "word":
        if not bool((spans.num_words > 0).all()):
            raise ValueError(
                "--action_logprob_norm word: an action has no number of words "
                "(EpisodeRecord.num_words); "
                'records of the rollout have one, others need "sum" or "token"'
            )
        total = total / spans.num_words
    return total.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def average(numbers: Tensor, spans: TokenGroups) -> Tensor:
    """Return the mean over each token's action: an action's entropy counts once,
    as its loss does.
    """
    return span_mean(numbers, spans.action)


APPO = Algorithm("APPO", estimate, log_ratio, average)
