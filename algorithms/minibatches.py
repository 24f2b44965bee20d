"""Minibatches: the rows of each optimiser step, by whole groups, and the passes over them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fctncalling.algorithms.algorithm import Algorithm
from fctncalling.algorithms.batch import Experience, Row, length_to_last_acted
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord, RowArrays
from fctncalling.algorithms.policy.actor_critic import ActorCritic, Batch
from fctncalling.algorithms.policy.shared_prefixes import PrefixSharing

Minibatch = list[list[int]]  # the rows of one optimiser step, by pass
MAX_PADDING_SHARE = 0.08  # padding among the tokens that one optimiser step passes over


def make_batch(
    rows: Sequence[Row], device: torch.device | str = "cpu", *, trim: bool = False
) -> Batch:
    """Make a batch of rows: pad them on the right.

    trim: drop each row's context after its last acted token. No log-probability or value of an
    acted token depends on it; only the bootstrap value after the last token needs it.
    """
    lengths = [length_to_last_acted(row) if trim else len(row.ids) for row in rows]
    ids = np.zeros((len(rows), max(lengths, default=0)), dtype=np.int64)
    attention_mask, acted = np.zeros(ids.shape, dtype=bool), np.zeros(ids.shape, dtype=bool)
    for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        ids[index, :length] = row.ids[:length]
        attention_mask[index, :length] = True
        acted[index, :length] = row.acted[:length]
    return Batch(
        ids=torch.from_numpy(ids).to(device),
        attention_mask=torch.from_numpy(attention_mask).to(device),
        acted=torch.from_numpy(acted).to(device),
    )


def row_token_ids(rows: Iterable[Row]) -> list[NDArray[np.int64]]:
    """Return the token ids of each row."""
    return [np.asarray(row.ids, dtype=np.int64) for row in rows]


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


class Passes(NamedTuple):
    """Planner of forward passes: groups an update's rows and builds the batch of each group."""

    experience: Experience
    config: TrainConfig  # its limits of a pass
    sharing: PrefixSharing | None = None  # where passes share prefixes; None: rows are padded
    joint_rows: Sequence[RowArrays] | None = None  # of the rows, for a central critic

    def minibatches(self, generator: torch.Generator) -> list[Minibatch]:
        """Return the minibatches of an epoch: rows shuffled, and split into passes.

        What is shuffled is the groups of episodes of one task and environment seed, if there are
        enough of them, since their rows begin alike; else single rows. Each row is as likely in
        any minibatch, and `loss_divisor` is the same for all minibatches. How rows pass through
        the model (shared prefixes, `gradient_cp_steps`, processes) has no say in it, so it changes
        no step but by rounding.
        """
        order = torch.randperm(len(self.experience.rows), generator=generator)
        return self._in_order(order.tolist())

    def share_prefixes(self, sharing: PrefixSharing | str) -> Passes:
        """Return a planner that shares prefixes, or this one if separate rows are cheaper.

        `sharing`: the cost of such passes, or why they cannot share.
        """
        if isinstance(sharing, str):
            return self
        sharing = sharing._replace(mask_price=self.config.tree_mask_price)
        shared, unshuffled = self._replace(sharing=sharing), range(len(self.experience.rows))
        rows = self.trained_token_ids(unshuffled)
        longest = max(len(row.ids) for row in self.experience.rows)
        if not sharing.may_save_tokens(rows, longest):
            return self
        plans = [passes._in_order(unshuffled) for passes in (shared, self)]
        trees, padded = ([*itertools.chain.from_iterable(plan)] for plan in plans)
        return shared if sharing.saves_tokens(rows, trees, padded) else self

    def over(self, rows: Sequence[int]) -> Minibatch:
        """Return the passes over rows; roles with separate weights get separate passes."""
        by_role = group_by_key(rows, self._role_of_row)
        return [group for rows_of_role in by_role for group in self._bounded(rows_of_role)]

    def batch(self, rows: Sequence[int]) -> tuple[Batch, Tensor]:
        """Return the batch of some rows, padded, and the indices of its acted tokens.

        The indices into the experience's tokens are in the order of the pass.
        """
        indices = self.experience.token_indices(rows)
        batch = make_batch([self.experience.rows[row] for row in rows], indices.device, trim=True)
        joint = None
        if self.joint_rows is not None:
            joint = make_batch([self.joint_rows[row] for row in rows], indices.device, trim=True)
        tree = None
        if self.sharing is not None:
            tree = self.sharing.build_tree(self.trained_token_ids(rows)).to(indices.device)
        role = self._role_of_row(rows[0])
        return batch._replace(tree=tree, role=role, critic_rows=joint), indices

    def critic_batch(self, episodes: list[int]) -> tuple[Batch, Tensor]:
        """Return the batch that the critic reads at the end of episodes, and the columns to read.

        They are of the last token; of a role that ends with its own action, the one before it.
        """
        rows = [self._critic_row(episode) for episode in episodes]
        batch = make_batch(rows, self.experience.tokens.rewards.device)
        last = [
            len(row.ids) - 1 - self.ends_in_own_action(episode)
            for row, episode in zip(rows, episodes, strict=True)
        ]
        columns = torch.tensor(last, device=batch.ids.device)
        tree = None
        if self.sharing is not None:
            tree = self.sharing.build_tree(row_token_ids(rows)).to(columns.device)
        return batch._replace(tree=tree, role=self._role(episodes[0])), columns

    def over_critic_rows(self, episodes: Sequence[int]) -> list[list[int]]:
        """Return the passes over the rows that the critic reads at the end of episodes."""
        limit, passes = self.config.max_microbatch_tokens, list[list[int]]()
        for members in group_by_key(episodes, self._role):
            rows = [self._critic_row(episode) for episode in members]
            if self.sharing is None:
                groups = microbatches([len(row.ids) for row in rows], max_tokens=limit)
            else:
                groups = self.sharing.microbatches(row_token_ids(rows), max_tokens=limit)
            passes += [[members[index] for index in group] for group in groups]
        return passes

    def ends_in_own_action(self, episode: int) -> bool:
        """Whether a role's row ends with its last action, without a later text of others.

        Another role was to act next.
        """
        record = self.experience.episodes[episode]
        return bool(record.role) and self.joint_rows is None and record.rows[-1].acted[-1]

    def trained_token_ids(self, rows: Sequence[int]) -> list[NDArray[np.int64]]:
        """Return the trained token ids of rows: those up to their last acted token."""
        lengths = self.experience.lengths
        whole = row_token_ids(self.experience.rows[row] for row in rows)
        return [ids[: lengths[row]] for row, ids in zip(rows, whole, strict=True)]

    def _in_order(self, order: Sequence[int]) -> list[Minibatch]:
        """Return the minibatches of rows in an order."""
        num_minibatches = min(self.config.num_mini_batch, len(order))
        groups = self._groups(order)
        units = groups if len(groups) >= num_minibatches else [[row] for row in order]
        return [
            self.over([row for number in numbers.tolist() for row in units[number]])
            for numbers in torch.tensor_split(torch.arange(len(units)), num_minibatches)
        ]

    def _bounded(self, rows: Sequence[int]) -> Minibatch:
        """Return rows in groups that pass through the model one by one."""
        limits = {
            "max_tokens": self.config.max_microbatch_tokens,
            "num_parts": self.config.gradient_cp_steps,
        }
        if self.sharing is None:
            groups = microbatches([self._pass_length(row) for row in rows], **limits)
        else:
            ids, group_of_row = self.trained_token_ids(rows), self._group_of_row()
            of_rows = [group_of_row[row] for row in rows]
            groups = self.sharing.microbatches(ids, **limits, groups=of_rows)
        return [[rows[index] for index in group] for group in groups]

    def _groups(self, order: Sequence[int]) -> list[list[int]]:
        """Return the rows of each group of episodes, groups in the order of their first rows."""
        groups: dict[int, list[int]] = {}
        for row, group in enumerate(self._group_of_row()):
            groups.setdefault(group, []).append(row)
        first = {rows[0]: rows for rows in groups.values()}
        return [first[row] for row in order if row in first]

    def _group_of_row(self) -> list[int]:
        """Return the group of the episode of each row."""
        experience = self.experience
        groups: list[int] = experience.groups[experience.episode_of_row].tolist()
        return groups

    def _pass_length(self, row: int) -> int:
        """Return the length of a pass over a row in tokens, or of its joint row if longer."""
        joint = 0 if self.joint_rows is None else length_to_last_acted(self.joint_rows[row])
        return max(self.experience.lengths[row], joint)

    def _critic_row(self, episode: int) -> Row:
        """Return the row that the critic reads for an episode."""
        last = self.experience.episodes[episode].rows[-1]
        return last if self.joint_rows is None or last.joint is None else last.joint

    def _role(self, episode: int) -> str:
        """Return the role of an episode; "" if all roles share their weights."""
        if not self.config.roles_have_own_weights:
            return ""
        return self.experience.episodes[episode].role

    def _role_of_row(self, row: int) -> str:
        return self._role(int(self.experience.episode_of_row[row]))


def make_passes(experience: Experience, policy: ActorCritic, config: TrainConfig) -> Passes:
    """Make the planner of an experience's passes, which share prefixes where that is cheaper."""
    passes = Passes(experience, config, joint_rows=_joint_rows(experience.episodes))
    if not config.share_prefixes or passes.joint_rows is not None:
        return passes
    return passes.share_prefixes(policy.prefix_sharing)


def _joint_rows(episodes: Sequence[EpisodeRecord]) -> list[RowArrays] | None:
    """Return the joint row of each row with acted tokens; None without a central critic."""
    if episodes[0].rows[0].joint is None:
        return None
    rows = [row for episode in episodes for row in episode.rows if row.num_acted]
    return [row.joint for row in rows if row.joint is not None]


def group_by_key(items: Sequence[int], key: Callable[[int], str]) -> list[list[int]]:
    """Group items by a key, in order of key and item."""
    groups: dict[str, list[int]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return [groups[name] for name in sorted(groups)]


@torch.no_grad()
def bootstrap_values(
    policy: ActorCritic, passes: Passes, algorithm: Algorithm, processes: ProcessGroup
) -> Tensor:
    """Return the bootstrap value after each truncated episode, (E,); 0 for others.

    Without a critic all are 0.

    A role of a team that was not to act next ends with an action of its own, and no value is
    learned behind one. It goes on from the value before its last token: what it earned with that
    and the discounted bootstrap value come to this value.
    """
    tokens, episodes = passes.experience.tokens, passes.experience.episodes
    values = torch.zeros(len(episodes), device=tokens.rewards.device)
    cut = [index for index, episode in enumerate(episodes) if not episode.terminated]
    if not (cut and passes.config.truncation_bootstrap and algorithm.critic):
        return values

    def run_pass(indices: list[int]) -> tuple[Tensor, Tensor]:
        batch, columns = passes.critic_batch(indices)
        return torch.tensor(indices, device=values.device), policy.values_at(batch, columns)

    processes.fill(values, passes.over_critic_rows(cut), run_pass)
    gamma = passes.config.resolved_gamma
    for index in cut:
        if passes.ends_in_own_action(index):
            earned = tokens.rewards[tokens.episode == index][-1]
            values[index] = (values[index] - earned) / gamma if gamma else 0.0
    return values
