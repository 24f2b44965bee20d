"""Which rows share an optimiser step, and which of them pass through the model together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch

from fctncalling.algorithms.batch import Experience, Minibatch
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, RowArrays
from fctncalling.algorithms.minibatches.padded_rows import microbatches
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.shared_prefixes import PrefixSharing


def plan_minibatches(
    experience: Experience, config: TrainConfig, generator: torch.Generator
) -> list[Minibatch]:
    """Return one epoch.

    Every row once, shuffled into minibatches of nearly equal size, each split into microbatches.

    What is shuffled is the groups of episodes of one task and environment seed, if there are enough
    of them, since their rows begin alike; else single rows. Each row is as likely in any minibatch,
    and `loss_divisor` is the same for all minibatches. How rows pass through the model (shared
    prefixes, `gradient_cp_steps`, processes) has no say in it, so it changes no step but by
    rounding.
    """
    order = torch.randperm(len(experience.rows), generator=generator).tolist()
    return _plan(experience, config, order)


def prepare_passes(experience: Experience, policy: ActorCritic, config: TrainConfig) -> Experience:
    """Return the update batch as passes take it.

    Roles with weights of their own apart, prefixes shared where that pays.
    """
    experience = experience._replace(
        roles_apart=config.roles_apart, joint_rows=_joint_rows(experience.episodes)
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
    """Return the update batch with passes that share prefixes where that pays.

    Sharing: how, or why they cannot.
    """
    if isinstance(sharing, str):
        return experience
    shared = experience._replace(sharing=sharing)
    unshuffled = range(len(experience.rows))
    rows = experience.trained_ids(unshuffled)
    longest = max(len(row.ids) for row in experience.rows)
    if not sharing.may_pay(rows, longest):
        return experience
    plans = [_plan(each, config, unshuffled) for each in (shared, experience)]
    passes = [list(itertools.chain.from_iterable(plan)) for plan in plans]
    return shared if sharing.pays(rows, *passes) else experience


def _plan(experience: Experience, config: TrainConfig, order: Sequence[int]) -> list[Minibatch]:
    num_minibatches = min(config.num_mini_batch, len(experience.rows))
    groups = _groups(experience, order)
    units = groups if len(groups) >= num_minibatches else [[row] for row in order]
    plan = []
    for numbers in torch.tensor_split(torch.arange(len(units)), num_minibatches):
        rows = [row for number in numbers.tolist() for row in units[number]]
        of_role = split_by(rows, experience.role_of)
        plan.append([each for own in of_role for each in _passes(experience, config, own)])
    return plan


def _passes(experience: Experience, config: TrainConfig, rows: Sequence[int]) -> Minibatch:
    """Return rows in groups that pass through the model one by one."""
    sharing = experience.sharing
    limits = {"max_tokens": config.max_microbatch_tokens, "num_parts": config.gradient_cp_steps}
    if sharing is None:
        groups = microbatches([experience.pass_length(row) for row in rows], **limits)
    else:
        groups = sharing.microbatches(experience.trained_ids(rows), **limits)
    return [[rows[index] for index in group] for group in groups]


def split_by(items: Sequence[int], key: Callable[[int], str]) -> list[list[int]]:
    """Return the items in groups of one key each, in order of key and item."""
    groups: dict[str, list[int]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return [groups[found] for found in sorted(groups)]


def _groups(experience: Experience, order: Sequence[int]) -> list[list[int]]:
    """Return the rows of each group of episodes, the groups in the order of their first rows."""
    group_of_episode = experience.episode_groups().tolist()
    episode_of_row = experience.tokens.episode[experience.starts[:-1]].tolist()
    groups: dict[int, list[int]] = {}
    for row, episode in enumerate(episode_of_row):
        groups.setdefault(group_of_episode[episode], []).append(row)
    first = {rows[0]: rows for rows in groups.values()}
    return [first[row] for row in order if row in first]
