"""The Algorithm interface: advantage estimator, clipped ratio, critic or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.algorithms.config import TrainConfig


class Trajectories(NamedTuple):
    """The acted tokens of every episode in order of time, context left out. E episodes, L tokens at
    most.
    """

    rewards: Tensor  # (E, L)
    values: Tensor  # (E, L) of the state before the token, from before the update
    acted: Tensor  # (E, L) bool, false only on the padding at the end
    ends_action: Tensor  # (E, L) bool
    bootstrap: Tensor  # (E,) value after the last token; 0 where terminated
    group: Tensor  # (E,) int64, equal for episodes of one task and environment seed

    def begins_action(self) -> Tensor:
        """Return whether a token is the first of its action, (E, L)."""
        before = torch.cat(
            [torch.ones_like(self.ends_action[:, :1]), self.ends_action[:, :-1]], dim=1
        )
        return before & self.acted

    def action_number(self) -> Tensor:
        """Return which action of its episode a token belongs to, (E, L), from 0; padding counts to
        the last one.
        """
        return self.begins_action().long().cumsum(1) - 1


class AdvantageEstimate(NamedTuple):
    """What the update learns from, on the timelines' shape."""

    advantages: Tensor  # (E, L)
    returns: Tensor  # (E, L) targets of the critic
    # (E, L) bool, the tokens that enter the losses (an action-level algorithm: one an action)
    counted: Tensor


class TokenGroups(NamedTuple):
    """What each of n tokens of a pass belongs to; tokens of one action, and of one row, are
    neighbours.
    """

    action: Tensor  # (n,) int64
    row: Tensor  # (n,) int64
    num_words: (
        Tensor  # (n,) words of the token's action, parted by white space; 0 where nobody counted
    )


def identity(numbers: Tensor, spans: TokenGroups) -> Tensor:
    """Return the numbers as they are: a token stands for itself."""
    return numbers


class Algorithm(NamedTuple):
    """One algorithm; everything else (batches, losses, epochs, steps) is shared."""

    name: str
    estimate: Callable[[Trajectories, TrainConfig], AdvantageEstimate]
    log_ratio: Callable[
        [Tensor, TokenGroups, TrainConfig], Tensor
    ]  # of tokens (n,) -> the one clipped at each token (n,)
    average: Callable[[Tensor, TokenGroups], Tensor] = (
        identity  # entropy or KL of tokens (n,) -> what the loss counts (n,)
    )
    critic: bool = (
        True  # false: values are neither used nor trained, and advantages bring their own scale
    )


def token_estimate(
    timelines: Trajectories, config: TrainConfig, *, gamma_token: float, lam_token: float | None
) -> AdvantageEstimate:
    """Return an advantage and a target for every token; lam_token None: inside an action as between
    actions.

    The critic's targets may look further ahead than the policy's advantages (--lam_value; VC-PPO,
    arXiv:2503.01491).
    """

    def gae(lam: float) -> tuple[Tensor, Tensor]:
        return decomposed_gae(
            *timelines[:5],
            gamma=config.discount,
            lam=lam,
            gamma_token=gamma_token,
            lam_token=lam if lam_token is None else lam_token,
        )

    advantages, returns = gae(config.lam)
    if config.lam_value is not None:
        returns = gae(config.lam_value)[1]
    return AdvantageEstimate(advantages, returns, counted=timelines.acted)


def token_log_ratio(token_log_ratios: Tensor, spans: TokenGroups, config: TrainConfig) -> Tensor:
    """Return the token's own log-ratio: each token is clipped by itself."""
    return token_log_ratios


def span_sum(numbers: Tensor, span: Tensor) -> Tensor:
    """Return at each token the sum over its span, (n,); the tokens of a span are neighbours."""
    _, index = torch.unique_consecutive(span, return_inverse=True)
    totals = torch.zeros(len(numbers), dtype=numbers.dtype, device=numbers.device).index_add(
        0, index, numbers
    )
    return totals[index]


def span_mean(numbers: Tensor, span: Tensor) -> Tensor:
    """Return at each token the mean over its span, (n,)."""
    return span_sum(numbers, span) / span_sum(torch.ones_like(numbers), span)
