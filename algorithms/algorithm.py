"""The Algorithm interface: advantage estimator, clipped ratio, critic or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.algorithms.config import TrainConfig


class Trajectories(NamedTuple):
    """Trajectories: acted tokens of each episode in time order, (E, L).

    E episodes of at most L tokens, without their context.
    """

    rewards: Tensor  # (E, L)
    values: Tensor  # (E, L) of the state before the token, from before the update
    acted: Tensor  # (E, L) bool, false only on the padding at the end
    ends_action: Tensor  # (E, L) bool
    bootstrap: Tensor  # (E,) value after the last token; 0 where terminated
    group: Tensor  # (E,) int64, equal for episodes of one task and environment seed
    lam: Tensor | None = None  # (E, L) lambda from a token's action to the next; None: --lam

    def lambdas(self, config: TrainConfig) -> Tensor | float:
        """Return lambda, of each token (E, L) or one for all; 1 where nothing says it."""
        return self.lam if self.lam is not None else 1.0 if config.lam is None else config.lam

    def begins_action(self) -> Tensor:
        """Return whether a token begins its action, (E, L)."""
        before = torch.cat(
            [torch.ones_like(self.ends_action[:, :1]), self.ends_action[:, :-1]], dim=1
        )
        return before & self.acted

    def action_number(self) -> Tensor:
        """Return the number of each token's action in its episode, (E, L), from 0.

        Padding gets that of the last action.
        """
        return self.begins_action().long().cumsum(1) - 1


class AdvantageEstimate(NamedTuple):
    """Estimated advantages and returns (value targets), in the trajectories' shape, (E, L)."""

    advantages: Tensor  # (E, L)
    returns: Tensor  # (E, L) targets of the critic
    # (E, L) bool, the tokens that enter the losses (action-level algorithms: one token an action)
    loss_mask: Tensor


class TokenGroups(NamedTuple):
    """Groups of the n acted tokens of a pass: the action and the row of each.

    Tokens of one action are neighbours, and so are those of one row, as `broadcast_span_sum` needs.
    """

    action: Tensor  # (n,) int64
    row: Tensor  # (n,) int64
    # (n,) words, separated by white space, of the token's action; 0 where not known
    num_words: Tensor


def identity(values: Tensor, groups: TokenGroups) -> Tensor:
    """Return the identity: per-token values (n,) as they are, not averaged over actions."""
    return values


class Algorithm(NamedTuple):
    """Algorithm: the parts in which algorithms differ, an estimate, a log-ratio, an average."""

    name: str
    estimate: Callable[[Trajectories, TrainConfig], AdvantageEstimate]
    # per-token log-ratios (n,) -> the log-ratio that is clipped at each token (n,)
    log_ratio: Callable[[Tensor, TokenGroups, TrainConfig], Tensor]
    # per-token entropies or KLs (n,) -> what the loss takes at each token (n,)
    average: Callable[[Tensor, TokenGroups], Tensor] = identity
    # False: values are neither used nor trained, and the estimate scales its own advantages
    critic: bool = True


def token_gae_estimate(
    trajectories: Trajectories, config: TrainConfig, *, gamma_token: float, lam_token: float | None
) -> AdvantageEstimate:
    """Return the token GAE estimate, of every token: advantages and returns.

    lam_token None: the same lambda inside an action as between actions. lam_value gives the
    critic's targets a lambda of their own (VC-PPO, arXiv:2503.01491).
    """

    def gae(lam: float | Tensor) -> tuple[Tensor, Tensor]:
        return decomposed_gae(
            rewards=trajectories.rewards,
            values=trajectories.values,
            acted=trajectories.acted,
            ends_action=trajectories.ends_action,
            bootstrap=trajectories.bootstrap,
            gamma=config.resolved_gamma,
            lam=lam,
            gamma_token=gamma_token,
            lam_token=lam if lam_token is None else lam_token,
        )

    advantages, returns = gae(trajectories.lambdas(config))
    if config.lam_value is not None:
        returns = gae(config.lam_value)[1]
    return AdvantageEstimate(advantages, returns, loss_mask=trajectories.acted)


def returns_to_go(trajectories: Trajectories, gamma: float) -> Tensor:
    """Return the returns to go at every token, discounted rewards, (E, L) fp64.

    GAE with values of 0 and lambda 1, that is, without a critic and without a bootstrap.
    """
    no_values = torch.zeros_like(trajectories.rewards, dtype=torch.float64)
    return decomposed_gae(
        rewards=trajectories.rewards,
        values=no_values,
        acted=trajectories.acted,
        ends_action=trajectories.ends_action,
        bootstrap=no_values[:, 0],
        gamma=gamma,
        lam=1.0,
    )[1]


def token_log_ratio(token_log_ratios: Tensor, groups: TokenGroups, config: TrainConfig) -> Tensor:
    """Return the token log-ratio, each token's own, (n,), unchanged."""
    return token_log_ratios


def broadcast_span_sum(values: Tensor, span: Tensor) -> Tensor:
    """Broadcast the sum over each token's span to the token, (n,); `span` is an index.

    Tokens of one span are neighbours.
    """
    _, index = torch.unique_consecutive(span, return_inverse=True)
    totals = torch.zeros(len(values), dtype=values.dtype, device=values.device).index_add(
        0, index, values
    )
    return totals[index]


def broadcast_span_mean(values: Tensor, span: Tensor) -> Tensor:
    """Broadcast the mean over each token's span to the token, (n,)."""
    return broadcast_span_sum(values, span) / broadcast_span_sum(torch.ones_like(values), span)
