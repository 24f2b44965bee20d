"""Minibatches: what an optimiser step reads, by whole groups, rows padded in bounded passes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fctncalling.algorithms.algorithm import Algorithm
from fctncalling.algorithms.batch import Experience, Minibatch, make_batch, row_token_ids
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord, RowArrays
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.progress_features import token_progress_features
from fctncalling.algorithms.policy.shared_prefixes import PrefixSharing

MAX_PADDING_SHARE = 0.08  # padding among the tokens that one optimiser step passes over


def microbatches(
    lengths: Sequence[int],
    *,
    max_tokens: int,
    num_parts: int = 1,
    max_padding_share: float = MAX_PADDING_SHARE,
) -> list[list[int]]:
    """Return microbatches of rows of similar length, as row indices, the shortest first.

    Each group is padded and passed through the model on its own. It holds at most max_tokens
    tokens, padding included (a longer row forms a group by itself). Less than max_padding_share of
    all tokens is padding. num_parts: split the tokens into at least that many groups, if there are
    enough rows.
    """
    order = np.argsort(lengths, kind="stable")
    sizes, total = np.asarray(lengths, dtype=np.int64)[order], sum(lengths)
    limit = max_tokens if num_parts == 1 else min(max_tokens, -(-total // num_parts))
    # Each group costs its padded tokens plus this price: a high price gives few groups. It is
    # lowered until the padding is within its bound.
    price = float(max(lengths, default=0) * len(lengths))
    while True:
        bounds = _cheapest_cut(sizes, limit, price)
        padded = sum(
            (end - start) * int(sizes[end - 1]) for start, end in itertools.pairwise(bounds)
        )
        if padded * (1.0 - max_padding_share) < total or price == 0.0:
            return [order[start:end].tolist() for start, end in itertools.pairwise(bounds)]
        price = 0.7 * price if price > 1.0 else 0.0


def _cheapest_cut(sizes: NDArray[np.int64], limit: int, price: float) -> list[int]:
    """Return the bounds of groups of neighbours that cost least, from 0 to len(sizes).

    The cost is padded tokens + price * groups.

    Dynamic programming over sizes (lengths, ascending): costs[end] is the minimum over all ways to
    group the first `end` rows, starts[end] the first row of the last group in the best of them.
    """
    costs, starts = np.zeros(len(sizes) + 1), np.zeros(len(sizes) + 1, dtype=np.int64)
    for end in range(1, len(sizes) + 1):
        size = int(sizes[end - 1])
        first = max(0, end - max(1, limit // max(1, size)))
        choices = costs[first:end] + np.arange(end - first, 0, -1) * size
        best = int(choices.argmin())
        costs[end], starts[end] = choices[best] + price, first + best
    bounds = [len(sizes)]
    while bounds[-1]:
        bounds.append(int(starts[bounds[-1]]))
    return bounds[::-1]


def plan_minibatches(
    experience: Experience, config: TrainConfig, generator: torch.Generator
) -> list[Minibatch]:
    """Plan the minibatches of an epoch: rows shuffled, and split into microbatches.

    What is shuffled is the groups of episodes of one task and environment seed, if there are enough
    of them, since their rows begin alike; else single rows. Each row is as likely in any minibatch,
    and `loss_divisor` is the same for all minibatches. How rows pass through the model (shared
    prefixes, `gradient_cp_steps`, processes) has no say in it, so it changes no step but by
    rounding.
    """
    order = torch.randperm(len(experience.rows), generator=generator).tolist()
    return _plan(experience, config, order)


def add_forward_inputs(
    experience: Experience, policy: ActorCritic, config: TrainConfig
) -> Experience:
    """Add the inputs of forward passes to an experience: features, joint rows, prefix sharing.

    Roles with weights of their own apart, prefixes shared where that pays.
    """
    if config.critic_sees == "progress":
        tokens, episodes = experience.tokens, experience.episodes
        found = token_progress_features(episodes, tokens.action, tokens.rewards.device)
        experience = experience._replace(progress=found[0], final_progress=found[1])
    experience = experience._replace(
        roles_apart=config.roles_have_own_weights, joint_rows=_joint_rows(experience.episodes)
    )
    if not config.share_prefixes or experience.joint_rows is not None:
        return experience
    return share_prefixes(experience, policy.prefix_sharing, config)


def _joint_rows(episodes: Sequence[EpisodeRecord]) -> list[RowArrays] | None:
    """Return the joint row of each row that holds acted tokens; None where there are none."""
    if episodes[0].rows[0].joint is None:
        return None
    rows = [row for episode in episodes for row in episode.rows if row.num_acted]
    return [row.joint for row in rows if row.joint is not None]


def share_prefixes(
    experience: Experience, sharing: PrefixSharing | str, config: TrainConfig
) -> Experience:
    """Share prefixes: return the experience with passes over trees where that pays.

    `sharing`: the cost of such passes, or why they cannot share.
    """
    if isinstance(sharing, str):
        return experience
    sharing = sharing._replace(mask_price=config.tree_mask_price)
    shared = experience._replace(sharing=sharing)
    unshuffled = range(len(experience.rows))
    rows = experience.trained_token_ids(unshuffled)
    longest = max(len(row.ids) for row in experience.rows)
    if not sharing.may_save_tokens(rows, longest):
        return experience
    plans = [_plan(each, config, unshuffled) for each in (shared, experience)]
    passes = [list(itertools.chain.from_iterable(plan)) for plan in plans]
    return shared if sharing.saves_tokens(rows, *passes) else experience


def _plan(experience: Experience, config: TrainConfig, order: Sequence[int]) -> list[Minibatch]:
    num_minibatches = min(config.num_mini_batch, len(experience.rows))
    groups = _groups(experience, order)
    units = groups if len(groups) >= num_minibatches else [[row] for row in order]
    plan = []
    for numbers in torch.tensor_split(torch.arange(len(units)), num_minibatches):
        rows = [row for number in numbers.tolist() for row in units[number]]
        plan.append(plan_passes(experience, config, rows))
    return plan


def plan_passes(experience: Experience, config: TrainConfig, rows: Sequence[int]) -> Minibatch:
    """Plan the passes over rows: microbatches, of one role each where roles are apart."""
    of_role = group_by_key(rows, experience.role_of_row)
    return [each for own in of_role for each in _passes(experience, config, own)]


def _passes(experience: Experience, config: TrainConfig, rows: Sequence[int]) -> Minibatch:
    """Return rows in groups that pass through the model one by one."""
    sharing = experience.sharing
    limits = {"max_tokens": config.max_microbatch_tokens, "num_parts": config.gradient_cp_steps}
    if sharing is None:
        groups = microbatches([experience.pass_length(row) for row in rows], **limits)
    else:
        ids, group_of_row = experience.trained_token_ids(rows), _group_of_row(experience)
        groups = sharing.microbatches(ids, **limits, groups=[group_of_row[row] for row in rows])
    return [[rows[index] for index in group] for group in groups]


def group_by_key(items: Sequence[int], key: Callable[[int], str]) -> list[list[int]]:
    """Group items by a key, in order of key and item."""
    groups: dict[str, list[int]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return [groups[found] for found in sorted(groups)]


def _groups(experience: Experience, order: Sequence[int]) -> list[list[int]]:
    """Return the rows of each group of episodes, the groups in the order of their first rows."""
    groups: dict[int, list[int]] = {}
    for row, group in enumerate(_group_of_row(experience)):
        groups.setdefault(group, []).append(row)
    first = {rows[0]: rows for rows in groups.values()}
    return [first[row] for row in order if row in first]


def _group_of_row(experience: Experience) -> list[int]:
    """Return the group of the episode of each row."""
    episode_of_row = experience.tokens.episode[experience.starts[:-1]]
    groups: list[int] = experience.episode_groups()[episode_of_row].tolist()
    return groups


@torch.no_grad()
def bootstrap_values(
    policy: ActorCritic,
    experience: Experience,
    algorithm: Algorithm,
    config: TrainConfig,
    processes: ProcessGroup,
) -> Tensor:
    """Return the bootstrap value behind each truncated episode, (E,).

    0 where it terminated, or without a critic.

    A role of a team that was not to act next ends with an action of its own, and no value is
    learned behind one. It goes on from the value before its last token: what it earned with that
    and the discounted bootstrap value come to this value.
    """
    values = torch.zeros(len(experience.episodes), device=experience.tokens.rewards.device)
    cut = [index for index, episode in enumerate(experience.episodes) if not episode.terminated]
    if not (cut and config.truncation_bootstrap and algorithm.critic):
        return values
    sharing = experience.sharing

    def forward(indices: list[int]) -> tuple[list[int], Tensor]:
        rows = [experience.critic_row(index) for index in indices]
        batch = make_batch(rows, device=values.device)
        tree = (
            sharing.build_tree(row_token_ids(rows)).to(values.device)
            if sharing is not None
            else None
        )
        before = [_ends_in_own_action(experience, index) for index in indices]
        last = [len(row.ids) - 1 - own for row, own in zip(rows, before, strict=True)]
        columns = torch.tensor(last, device=values.device)
        read = (batch.ids, batch.attention_mask, columns, tree)
        progress = None if (final := experience.final_progress) is None else final[indices]
        role = experience.role_of_episode(indices[0])
        return indices, policy.values_at(*read, role, progress)

    of_role = group_by_key(cut, experience.role_of_episode)
    groups = [group for own in of_role for group in _bounded_groups(experience, own, config)]
    for indices, ends in processes.for_each_microbatch(groups, forward):
        values[indices] = ends
    processes.all_reduce(values)
    for index in cut:
        if _ends_in_own_action(experience, index):
            earned = experience.tokens.rewards[experience.tokens.episode == index][-1]
            values[index] = (
                (values[index] - earned) / config.resolved_gamma if config.resolved_gamma else 0.0
            )
    return values


def _ends_in_own_action(experience: Experience, episode: int) -> bool:
    """Whether a role's row ends with its last action, with no text of others behind it.

    Another role was to act next.
    """
    apart = bool(experience.episodes[episode].role) and experience.joint_rows is None
    return apart and experience.episodes[episode].rows[-1].acted[-1]


def _bounded_groups(
    experience: Experience, episodes: list[int], config: TrainConfig
) -> list[list[int]]:
    """Group episodes by the passes of their last rows."""
    rows, limit = [experience.critic_row(index) for index in episodes], config.max_microbatch_tokens
    if experience.sharing is None:
        groups = microbatches([len(row.ids) for row in rows], max_tokens=limit)
    else:
        groups = experience.sharing.microbatches(row_token_ids(rows), max_tokens=limit)
    return [[episodes[member] for member in group] for group in groups]
