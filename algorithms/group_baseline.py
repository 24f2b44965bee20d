"""Group baselines: estimates of state values from the other episodes of a task.

Tools are deterministic, so the episodes of a group meet in equal states, which
`info["state_hash"]` names. What the others got from there on is the state's value without a critic.
GiGPO (arXiv:2505.10978) compares an episode's return with the mean at its state; here the next
state is valued by others, too, so that luck behind it does not move the action's credit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories


def subtract_group_baseline(estimate: AdvantageEstimate, group: Tensor) -> AdvantageEstimate:
    """Subtract the group baseline from advantages: the mean of the group's other episodes.

    The gradient's expectation stays as it is: an episode's baseline does not depend on its own
    actions. Its variance between tasks goes, which a critic explains only once it has seen many
    tasks (leave-one-out: Kool et al. 2019; RLOO, arXiv:2402.14740). What the critic says of the
    tokens inside an episode stays. An episode alone in its group keeps its advantages.

    group: (E,) int64, equal for episodes of one task and environment seed.
    """
    advantages = estimate.advantages - leave_one_out_means(estimate, group)[:, None]
    return estimate._replace(
        advantages=torch.where(estimate.loss_mask, advantages, estimate.advantages)
    )


def leave_one_out_means(estimate: AdvantageEstimate, group: Tensor) -> Tensor:
    """Return the mean first advantage of the group's other episodes, (E,); 0 without others."""
    first = estimate.loss_mask.float().argmax(dim=1, keepdim=True)  # (E, 1) first token that learns
    outcomes = estimate.advantages.gather(1, first).squeeze(1)
    outcomes = torch.where(estimate.loss_mask.any(dim=1), outcomes, 0.0)
    index = torch.unique(group, return_inverse=True)[1]
    sums, counts = (
        torch.zeros_like(outcomes).index_add_(0, index, values)[index]
        for values in (outcomes, torch.ones_like(outcomes))
    )
    others = (sums - outcomes) / (counts - 1.0).clamp(min=1.0)
    return torch.where(counts > 1, others, 0.0)


def state_matched_estimate(
    estimate: AdvantageEstimate,
    trajectories: Trajectories,
    hashes: Sequence[Sequence[str]],  # of each episode, one an action
    gamma: float,
) -> AdvantageEstimate:
    """Return the estimate with values matched by state: r + V(s') - V(s) at all tokens.

    V is the mean return to go of the group's other episodes from the same state, one voice an
    episode. Where nobody else came: the critic's value for V(s), the episode's own return for
    V(s'). No value of an episode depends on its own actions, and where s' is unmatched the
    advantage is an unbiased return less a baseline. A cut episode goes on with its bootstrap value.
    Episodes whose environment names no states keep the estimate. The critic's targets stay.
    """
    number = trajectories.action_number().clamp(min=0)  # (E, L)
    advantages = estimate.advantages.clone()
    for episode, actions in enumerate(state_values(trajectories, hashes, gamma)):
        if not actions:
            continue
        credit = torch.tensor(
            [each.reward + gamma * each.behind - each.before for each in actions],
            dtype=advantages.dtype,
            device=advantages.device,
        )
        acted = trajectories.acted[episode]
        advantages[episode, acted] = credit[number[episode, acted]]
    advantages = torch.where(estimate.loss_mask, advantages, torch.zeros_like(advantages))
    return estimate._replace(advantages=advantages)


class StateValues(NamedTuple):
    """Values matched by state of the two states around an action."""

    reward: float
    before: float  # V(s): the others' mean return from s, else the critic's value
    others_before: int  # episodes of the group that were in s, too
    behind: float  # V(s'): the others' mean return from s', else the episode's own
    others_behind: int


def state_values(
    trajectories: Trajectories, hashes: Sequence[Sequence[str]], gamma: float
) -> list[list[StateValues]]:
    """Return each episode's values by action; none where the environment names no states."""
    begins = trajectories.begins_action()
    number = trajectories.action_number().clamp(min=0)  # (E, L)
    rewards = _by_action(trajectories.rewards, trajectories.acted, number)
    values = _by_action(trajectories.values, begins, number)
    counts = begins.sum(1).tolist()
    ends = trajectories.bootstrap.tolist()
    togo = [_returns_to_go(rewards[e, :n].tolist(), gamma, ends[e]) for e, n in enumerate(counts)]
    groups = trajectories.group.tolist()
    visits = _visits(hashes, togo, groups)
    found: list[list[StateValues]] = []
    for episode, (names, later) in enumerate(zip(hashes, togo, strict=True)):
        names = names if len(names) == len(later) else []
        others = [_others_returns(visits[groups[episode], name], episode) for name in names]
        # Behind the last action nobody is asked: the episode has ended, or goes on uncounted.
        known, ahead = [*map(_mean, others), None], [*later, ends[episode]]
        at = values[episode].tolist()
        found.append(
            [
                StateValues(
                    reward=float(rewards[episode, step]),
                    before=at[step] if (before := known[step]) is None else before,
                    others_before=len(others[step]),
                    behind=ahead[step + 1] if (behind := known[step + 1]) is None else behind,
                    others_behind=len(others[step + 1]) if step + 1 < len(names) else 0,
                )
                for step in range(len(names))
            ]
        )
    return found


def matched_state_share(hashes: Sequence[Sequence[str]], groups: Sequence[int]) -> float:
    """Return the matched-state share: actions from states of other episodes of the group."""
    visits = defaultdict[tuple[int, str], set[int]](set)
    for episode, (names, group) in enumerate(zip(hashes, groups, strict=True)):
        for name in names:
            visits[group, name].add(episode)
    counts = [
        len(visits[group, name])
        for names, group in zip(hashes, groups, strict=True)
        for name in names
    ]
    return sum(count > 1 for count in counts) / max(1, len(counts))


def _by_action(tokens: Tensor, at: Tensor, number: Tensor) -> Tensor:
    """Return the sum over each action of a token quantity where `at` holds, (E, A)."""
    kept = torch.where(at, tokens, torch.zeros_like(tokens))
    blank = torch.zeros(len(number), int(number.max()) + 1, dtype=kept.dtype, device=kept.device)
    return blank.scatter_add_(1, number, kept)


def _returns_to_go(rewards: Sequence[float], gamma: float, later: float) -> list[float]:
    """Return the reward to go from each action; `later` is the value after the last."""
    found = []
    for reward in reversed(rewards):
        later = reward + gamma * later
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


def _others_returns(visits: dict[int, list[float]], own: int) -> list[float]:
    """Return the mean return of each other episode, one voice each."""
    return [sum(values) / len(values) for other, values in visits.items() if other != own]


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


GroupBaseline = Callable[
    [AdvantageEstimate, Trajectories, Sequence[Sequence[str]], float], AdvantageEstimate
]
GROUP_BASELINES: dict[str, GroupBaseline] = {
    "leave_one_out": lambda estimate, paths, hashes, _: subtract_group_baseline(
        estimate, paths.group
    ),
    "state": state_matched_estimate,
}
"""--group_baseline -> (estimate, trajectories, state hashes, gamma) -> estimate less it."""
