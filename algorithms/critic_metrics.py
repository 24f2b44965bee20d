"""Metrics of the critic: its values, and how much of the returns they explain."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fctncalling.algorithms.advantages import explained_variance
from fctncalling.algorithms.batch import Experience
from fctncalling.algorithms.episodes import action_turns
from fctncalling.algorithms.targets import Targets

MONTE_CARLO = "critic/monte_carlo_explained_variance"


def critic_metrics(experience: Experience, targets: Targets, discount: float) -> dict[str, float]:
    """Return metrics of the critic: ranges of values and returns, explained variances.

    That of the targets, which hold the critic's own values, and that of the Monte-Carlo returns,
    which do not: over all tokens and, where episodes have several turns, by turn, from 1. NaN
    where returns are constant.
    """
    loss_mask = targets.loss_mask
    metrics: dict[str, float] = {}
    series = {
        "values": targets.old_values,
        "returns": targets.returns,
        "advantages": targets.raw_advantages,
    }
    for name, tensor in series.items():
        selected = tensor[loss_mask]
        metrics[f"critic/{name}_mean"] = float(selected.mean())
        metrics[f"critic/{name}_min"] = float(selected.min())
        metrics[f"critic/{name}_max"] = float(selected.max())
    values, returns = targets.old_values, monte_carlo_returns(experience, targets, discount)
    metrics["losses/explained_variance"] = explained_variance(
        values[loss_mask], targets.returns[loss_mask]
    )
    metrics[MONTE_CARLO] = explained_variance(values[loss_mask], returns[loss_mask])
    turns = token_turns(experience)[loss_mask]
    return metrics | explained_variance_by_turn(
        MONTE_CARLO, values[loss_mask], returns[loss_mask], turns
    )


def token_turns(experience: Experience) -> Tensor:
    """Return the turn of each acted token, (N,), from 1."""
    turns = torch.tensor(action_turns(experience.episodes), device=experience.tokens.action.device)
    return turns[experience.tokens.action]


def explained_variance_by_turn(
    name: str, values: Tensor, returns: Tensor, turns: Tensor
) -> dict[str, float]:
    """Return the explained variance by turn, {name/turn_1: ..., ...}.

    Nothing where there is one turn alone.
    """
    found = sorted(set(turns.tolist()))
    explained = {
        f"{name}/turn_{turn}": explained_variance(values[turns == turn], returns[turns == turn])
        for turn in found
    }
    if len(found) < 2:
        return {}
    return {each: share for each, share in explained.items() if not math.isnan(share)}


def monte_carlo_returns(experience: Experience, targets: Targets, discount: float) -> Tensor:
    """Return the Monte Carlo return of each token: discounted rewards from its action on, (N,).

    Discounted once an action (BAD); a truncated episode ends with its bootstrap value.
    """
    tokens = experience.tokens
    last = tokens.ends_action.nonzero().squeeze(1)  # of each action
    rewards = torch.zeros(len(last), dtype=torch.float64, device=last.device)
    rewards.index_add_(0, tokens.action, targets.rewards.double())
    episodes, bootstrap = tokens.episode[last].tolist(), targets.bootstrap[last].tolist()
    returns = rewards.tolist()
    for action in reversed(range(len(returns))):
        goes_on = action + 1 < len(returns) and episodes[action] == episodes[action + 1]
        after = returns[action + 1] if goes_on else bootstrap[action]
        returns[action] += discount * after
    of_action = torch.tensor(returns, dtype=torch.float64, device=last.device)
    return of_action.to(targets.returns.dtype)[tokens.action]
