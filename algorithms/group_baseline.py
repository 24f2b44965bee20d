"""Group baselines: what the other episodes of a task say of its difficulty and of its states.

Tools are deterministic, so the episodes of a group meet in equal states, which
`info["state_hash"]` names. What the others got from there on is the state's value without a critic.
GiGPO (arXiv:2505.10978) compares an episode's return with the mean at its state; here the next
state is valued by others, too, so that luck behind it does not move the action's credit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories


def less_group_baseline(estimate: AdvantageEstimate, group: Tensor) -> AdvantageEstimate:
    """Return advantages less the mean first advantage of the group's other episodes.

    The gradient's expectation stays as it is: an episode's baseline does not depend on its own
    actions. Its variance between tasks goes, which a critic explains only once it has seen many
    tasks (leave-one-out: Kool et al. 2019; RLOO, arXiv:2402.14740). What the critic says of the
    tokens inside an episode stays. An episode alone in its group keeps its advantages.

    group: (E,) int64, equal for episodes of one task and environment seed.
    """
    first = estimate.loss_mask.float().argmax(dim=1, keepdim=True)  # (E, 1) first token that learns
    outcomes = estimate.advantages.gather(1, first).squeeze(1)
    outcomes = torch.where(estimate.loss_mask.any(dim=1), outcomes, 0.0)
    index = torch.unique(group, return_inverse=True)[1]
    sums, counts = (
        torch.zeros_like(outcomes).index_add_(0, index, values)[index]
        for values in (outcomes, torch.ones_like(outcomes))
    )
    others = (sums - outcomes) / (counts - 1.0).clamp(min=1.0)
    baselines = torch.where(counts > 1, others, 0.0)
    advantages = torch.where(
        estimate.loss_mask, estimate.advantages - baselines[:, None], estimate.advantages
    )
    return estimate._replace(advantages=advantages)


def state_matched(
    estimate: AdvantageEstimate,
    trajectories: Trajectories,
    hashes: Sequence[Sequence[str]],  # of each episode, one an action
    discount: float,
) -> AdvantageEstimate:
    """Return an action's advantage r + discount V(s') - V(s) at all of its tokens.

    V is the mean return to go of the group's other episodes from the same state, one voice an
    episode. Where nobody else came: the critic's value for V(s), the episode's own return for
    V(s'). No value of an episode depends on its own actions, and where s' is unmatched the
    advantage is an unbiased return less a baseline. Episodes whose environment names no states keep
    the estimate. The critic's targets stay.
    """
    begins = trajectories.begins_action()
    number = trajectories.action_number().clamp(min=0)  # (E, L)
    rewards, values = _by_action(trajectories, begins, number)
    counts = begins.sum(1).tolist()
    togo = [_returns_to_go(rewards[e, :n].tolist(), discount) for e, n in enumerate(counts)]
    visits = _visits(hashes, togo, trajectories.group.tolist())
    advantages = estimate.advantages.clone()
    for episode, (names, later) in enumerate(zip(hashes, togo, strict=True)):
        if len(names) != len(later):
            continue
        group = int(trajectories.group[episode])
        known = [_others_mean(visits[group, name], episode) for name in names]
        credit = torch.tensor(
            [
                float(rewards[episode, step])
                + discount * _value_behind(known, later, step + 1)
                - (at if (at := known[step]) is not None else float(values[episode, step]))
                for step in range(len(names))
            ],
            dtype=advantages.dtype,
            device=advantages.device,
        )
        acted = trajectories.acted[episode]
        advantages[episode, acted] = credit[number[episode, acted]]
    advantages = torch.where(estimate.loss_mask, advantages, torch.zeros_like(advantages))
    return estimate._replace(advantages=advantages)


def _by_action(trajectories: Trajectories, begins: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
    """Return the reward of each action and the critic's value before it, both (E, A)."""
    shape = (len(begins), int(number.max()) + 1)

    def summed(tokens: Tensor) -> Tensor:
        blank = torch.zeros(shape, dtype=tokens.dtype, device=tokens.device)
        return blank.scatter_add_(1, number, tokens)

    rewards = summed(torch.where(trajectories.acted, trajectories.rewards, 0.0))
    return rewards, summed(torch.where(begins, trajectories.values, 0.0))


def _returns_to_go(rewards: Sequence[float], discount: float) -> list[float]:
    later = 0.0
    found = []
    for reward in reversed(rewards):
        later = reward + discount * later
        found.append(later)
    return found[::-1]


Visits = dict[tuple[int, str], dict[int, list[float]]]


def _visits(
    hashes: Sequence[Sequence[str]], togo: Sequence[Sequence[float]], groups: Sequence[int]
) -> Visits:
    """Return (group, state) -> episode -> its returns from there on."""
    visits: Visits = defaultdict(lambda: defaultdict(list))
    for episode, (names, later) in enumerate(zip(hashes, togo, strict=True)):
        if len(names) == len(later):
            for name, value in zip(names, later, strict=True):
                visits[groups[episode], name][episode].append(value)
    return visits


def _others_mean(visits: dict[int, list[float]], own: int) -> float | None:
    """Return the mean of the other episodes' mean returns; None where nobody else came."""
    means = [sum(values) / len(values) for other, values in visits.items() if other != own]
    return sum(means) / len(means) if means else None


def _value_behind(known: Sequence[float | None], togo: Sequence[float], step: int) -> float:
    """Return the value of the state before action `step`, 0 behind the last."""
    if step >= len(known):
        return 0.0
    value = known[step]
    return togo[step] if value is None else value
