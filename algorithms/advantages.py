"""Token- and action-level GAE, with Bellman backup with action decomposition (BAD).

Bellman backup with action decomposition (Wen et al. 2024, arXiv:2405.15821) lets time pass between
actions, not between the tokens that spell one. With the defaults `gamma_token = lam_token = 1`
every token of an action has the same target, the action's lambda-return, and the first token's
advantage is the action-level advantage. The published code keeps `lam` between tokens; pass
`lam_token=lam` for that, and `gamma_token=gamma` too for the naive token-level recursion.
"""

from __future__ import annotations

import torch
from torch import Tensor


def decomposed_gae(
    rewards: Tensor,  # (B, T) reward credited to token t
    values: Tensor,  # (B, T) critic's value of the state before token t
    acted: Tensor,  # (B, T) bool, token t was written by the policy
    ends_action: Tensor,  # (B, T) bool, token t is the last of its action
    bootstrap: Tensor,  # (B,) value after the last action; 0 where terminated
    *,
    gamma: float,
    lam: float | Tensor,  # (B, T) where it differs between tokens
    gamma_token: float = 1.0,
    lam_token: float | Tensor = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return decomposed GAE: token advantages and value targets, (B, T), 0 where not acted.

    gamma and lam apply where an action ends, gamma_token and lam_token between the tokens of one
    action. Tokens that were not acted are stepped over, whatever they hold (NaN included). Computed
    in fp64 for fp64 input, else in fp32.
    """
    _check_shapes(rewards, values, acted, ends_action, bootstrap)
    dtype = torch.float64 if torch.float64 in (rewards.dtype, values.dtype) else torch.float32
    acted = acted.bool()
    discounts, traces = _factors(ends_action.bool(), dtype, gamma, lam, gamma_token, lam_token)

    # Time first: a step of the scan then reads and writes contiguous memory.
    scan = [
        tensor.T.contiguous()
        for tensor in (rewards.to(dtype), values.to(dtype), acted, discounts, traces)
    ]
    next_value = bootstrap.detach().to(dtype)
    next_advantage = torch.zeros_like(next_value)
    advantages = torch.zeros_like(scan[0])  # (T, B)
    for t in range(len(advantages) - 1, -1, -1):
        reward, value, is_acted, discount, trace = (tensor[t] for tensor in scan)
        advantage = reward + discount * next_value - value + trace * next_advantage
        next_value = torch.where(is_acted, value, next_value)
        next_advantage = torch.where(is_acted, advantage, next_advantage)
        advantages[t] = advantage
    advantages = torch.where(acted, advantages.T, 0.0)
    return advantages, torch.where(acted, advantages + values.to(dtype), 0.0)


def action_gae(
    rewards: Tensor,  # (B, A) reward of action a
    values: Tensor,  # (B, A) critic's value of the observation that action a answers
    valid: Tensor,  # (B, A) bool, false on padding
    bootstrap: Tensor,  # (B,) value after the last action; 0 where terminated
    *,
    gamma: float,
    lam: float | Tensor,  # (B, A) where it differs between actions
) -> tuple[Tensor, Tensor]:
    """Return action-level GAE advantages and value targets, both (B, A), 0 on padding.

    It is `decomposed_gae` with actions of one token each.
    """
    return decomposed_gae(
        rewards=rewards,
        values=values,
        acted=valid,
        ends_action=torch.ones_like(valid),
        bootstrap=bootstrap,
        gamma=gamma,
        lam=lam,
    )


def whiten(
    advantages: Tensor,
    mask: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
    min_scale: float = 0.0,
    shift: bool = True,
) -> Tensor:
    """Whiten advantages: mean 0 and standard deviation 1 over `mask`, 0 outside.

    Zero advantages are included. epsilon bounds the scale: where all advantages agree up to
    rounding, the rounding is not blown up to size 1. A deviation below min_scale is raised to it.
    shift false: their mean square becomes 1, and an advantage of 0 stays 0.
    """
    mask = torch.ones_like(advantages, dtype=torch.bool) if mask is None else mask
    selected = advantages[mask]
    if selected.numel() == 0:
        return torch.zeros_like(advantages)
    if shift:
        centre, scale = selected.mean(), selected.std(correction=0)
    else:
        centre, scale = torch.zeros_like(selected[0]), selected.square().mean().sqrt()
    scale = scale.clamp(min=min_scale)
    return torch.where(mask, (advantages - centre) / (scale + epsilon), 0.0)


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """Return the explained variance of returns by values, both (N,); NaN for constant returns.

    1 is a perfect critic. Constant returns would give -inf, which spoils a plotted curve.
    """
    variance = returns.var(correction=0)
    if variance <= 1e-12:
        return float("nan")
    return float(1.0 - (returns - values).var(correction=0) / variance)


def _factors(
    ends_action: Tensor,
    dtype: torch.dtype,
    gamma: float,
    lam: float | Tensor,
    gamma_token: float,
    lam_token: float | Tensor,
) -> tuple[Tensor, Tensor]:
    """Return discount and trace factor after each token, (B, T), in dtype's full precision."""
    discounts = torch.full(ends_action.shape, gamma_token, dtype=dtype, device=ends_action.device)
    discounts.masked_fill_(ends_action, gamma)
    inside, between = (
        torch.as_tensor(each, dtype=dtype, device=discounts.device) for each in (lam_token, lam)
    )
    return discounts, discounts * torch.where(ends_action, between, inside)


def _check_shapes(
    rewards: Tensor, values: Tensor, acted: Tensor, ends_action: Tensor, bootstrap: Tensor
) -> None:
    """Raise ValueError naming the argument whose shape does not fit.

    Broadcasting would hide the mistake.
    """
    named = {"values": values, "acted": acted, "ends_action": ends_action}
    for name, tensor in named.items():
        if rewards.dim() != 2 or tensor.shape != rewards.shape:
            raise ValueError(
                f"{name} is {tuple(tensor.shape)}, rewards {tuple(rewards.shape)}: both must be "
                "(B, T)"
            )
    if bootstrap.shape != rewards.shape[:1]:
        raise ValueError(
            f"bootstrap is {tuple(bootstrap.shape)}, expected one value a row: "
            f"({rewards.shape[0]},)"
        )
