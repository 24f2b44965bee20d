"""APPO: action-level PPO, with one ratio, one advantage and one value per action.

Not RLlib's asynchronous PPO.

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
    broadcast_span_mean,
    broadcast_span_sum,
)
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.losses import MAX_LOG_RATIO


def appo_estimate(trajectories: Trajectories, config: TrainConfig) -> AdvantageEstimate:
    """Return APPO's estimate of advantages: GAE over actions.

    The losses take each action once, at its first token, where its value is read.
    """
    begins, number = trajectories.begins_action(), trajectories.action_number()
    shape = (len(begins), int(number.max()) + 1)  # (E, A)
    valid = torch.arange(shape[1], device=number.device) <= number[:, -1:]

    def sum_by_action(at: Tensor) -> Tensor:
        return torch.zeros(shape, dtype=at.dtype, device=at.device).scatter_add_(1, number, at)

    rewards = sum_by_action(torch.where(trajectories.acted, trajectories.rewards, 0.0))
    values = sum_by_action(torch.where(begins, trajectories.values, 0.0))

    def gae(lam: float | Tensor) -> tuple[Tensor, Tensor]:
        return action_gae(
            rewards=rewards,
            values=values,
            valid=valid,
            bootstrap=trajectories.bootstrap,
            gamma=config.resolved_gamma,
            lam=lam,
        )

    lam = trajectories.lambdas(config)
    if isinstance(lam, Tensor):
        lam = sum_by_action(torch.where(trajectories.ends_action, lam, 0.0))
    advantages, returns = gae(lam)
    if config.lam_value is not None:
        returns = gae(config.lam_value)[1]
    return AdvantageEstimate(
        advantages.gather(1, number), returns.gather(1, number), loss_mask=begins
    )


def action_log_ratio(token_log_ratios: Tensor, groups: TokenGroups, config: TrainConfig) -> Tensor:
    """Return the action log-ratio at each of the action's tokens, (n,), for APPO.

    The sum over its tokens, divided by their number or by the action's number of words where
    --action_logprob_norm says so.
    """
    total = broadcast_span_sum(token_log_ratios, groups.action)
    if config.action_logprob_norm == "token":
        total = broadcast_span_mean(token_log_ratios, groups.action)
    elif config.action_logprob_norm == "word":
        if not bool((groups.num_words > 0).all()):
            raise ValueError(
                "--action_logprob_norm word: an action has no number of words "
                "(EpisodeRecord.num_words); "
                'records of the rollout have one, others need "sum" or "token"'
            )
        total = total / groups.num_words
    return total.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def broadcast_action_mean(values: Tensor, groups: TokenGroups) -> Tensor:
    """Broadcast the action's mean of values to each of its tokens, (n,).

    An action's entropy counts once, as its loss does.
    """
    return broadcast_span_mean(values, groups.action)


APPO = Algorithm("APPO", appo_estimate, action_log_ratio, broadcast_action_mean)
