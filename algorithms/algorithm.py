"""The Algorithm interface: advantage estimator, clipped ratio, critic or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.algorithms.config import TrainConfig


class Trajectories(NamedTuple):
    """Trajectories of an update: the tokens that the policy wrote, one row an episode, (E, L).

    E episodes of at most L tokens, without the text of tools and users; padding at the end is 0
    or false. Episodes come in the order in which they were drawn, those of a group side by side;
    in a team, one for each role. Invalid ones are left out. With --dynamic_sampling above 1 and
    groups of at least 2, so is every group whose outcomes agree.

    - `rewards` (E, L): at the last token of each action, as learned from: less the penalties of
      --overlong penalty, times reward_scale; at every token less the KL penalty of kl_mode reward.
    - `values` (E, L): the critic's, of the state before the token, from before the update; with
      --lam auto weighed by what they know; an untrained head's where `Algorithm.critic` is false.
    - `acted` (E, L) bool: false on padding alone.
    - `ends_action` (E, L) bool: the last token of its action.
    - `bootstrap` (E,): the value behind an episode that was cut off; 0 where it terminated,
      without a critic, or by the setting truncation_bootstrap: false.
    - `group` (E,) int64: equal for episodes of one task and environment seed, from 0.
    - `lam` (E, L): lambda from a token's action to the next, with --lam auto; else None, and --lam
      stands for all (0.95 where an algorithm of your own is given none).
    """

    rewards: Tensor
    values: Tensor
    acted: Tensor
    ends_action: Tensor
    bootstrap: Tensor
    group: Tensor
    lam: Tensor | None = None

    def lambdas(self, config: TrainConfig) -> Tensor | float:
        """Return lambda, per token (E, L) or a scalar; the default is 1."""
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
    """Estimated advantages and returns (value targets), in the trajectories' shape, (E, L).

    Padding is ignored.

    - `advantages` (E, L).
    - `returns` (E, L): targets of the critic.
    - `loss_mask` (E, L) bool: the tokens that enter the losses (action-level algorithms: one token
      an action).
    """

    advantages: Tensor
    returns: Tensor
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
    """Return per-token values (n,) unchanged, not averaged over actions."""
    return values


class Algorithm(NamedTuple):
    """Algorithm: the parts in which algorithms differ, an estimate, a log-ratio, an average.

    - `estimate` is called once an update, and in each of several processes with the episodes of
      all; a fit of the critic (--critic_warmup_episodes, --critic_window_updates) calls it for its
      returns, with values of 0. It should depend on its arguments alone: no checkpoint keeps a
      variable of its module, so --resume begins without it.
    - `log_ratio`: log-ratios of tokens (n,) to the log-ratio that is clipped at each token, (n,).
    - `average`: entropies or KLs of tokens (n,) to the number that the loss takes at each, (n,).
    - `critic`: true: the critic learns the estimate's returns, advantages are whitened by
      --whiten_advantages, and all are 0 where all episodes earned the same. False: advantages are
      taken as they are, and returns are logged alone (`returns_to_go` will do).
    """

    name: str
    estimate: Callable[[Trajectories, TrainConfig], AdvantageEstimate]
    log_ratio: Callable[[Tensor, TokenGroups, TrainConfig], Tensor]
    average: Callable[[Tensor, TokenGroups], Tensor] = identity
    critic: bool = True


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


def action_outcomes(trajectories: Trajectories, gamma: float) -> tuple[Tensor, Tensor]:
    """Return the return to go of every action, fp64, and the action's number in its episode."""
    starts = trajectories.begins_action()
    return returns_to_go(trajectories, gamma)[starts], trajectories.action_number()[starts]


def token_log_ratio(token_log_ratios: Tensor, groups: TokenGroups, config: TrainConfig) -> Tensor:
    """Return the log-ratio of each token, (n,), unchanged."""
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
