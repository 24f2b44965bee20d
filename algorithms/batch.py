"""Rows and action tokens of one update, padded for forward passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fctncalling.algorithms.algorithm import TokenGroups, Trajectories
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import (
    EpisodeRecord,
    RowArrays,
    TokenRecord,
    action_turns,
    action_word_counts,
    check_token_record,
    truncated_action_flags,
)
from fctncalling.algorithms.policy.actor_critic import CriticRows
from fctncalling.algorithms.policy.shared_prefixes import PrefixSharing, PrefixTree


class Batch(NamedTuple):
    """Batch of B rows for one forward pass, padded on the right to T tokens."""

    ids: Tensor  # (B, T) int64, 0 on padding
    # (B, T) bool, false on padding; never inferred from ids: 0 may be a real token
    attention_mask: Tensor
    acted: Tensor  # (B, T) bool, token t was sampled by the policy
    tree: PrefixTree | None = None  # of the rows, where prefixes are shared
    role: str = ""  # whose rows these are, where roles pass through the model apart
    critic_rows: CriticRows | None = None  # what a central critic reads in place of these
    progress: Tensor | None = None  # (n, F) of its acted tokens, where the critic reads it


class ActedTokens(NamedTuple):
    """Acted tokens of an update, all N, flat: in order of episode, row and time.

    Every field is flat (N,) with one index a token.
    """

    rewards: Tensor  # (N,) float32
    ends_action: Tensor  # (N,) bool
    rollout_logprobs: Tensor  # (N,) float32
    row: Tensor  # (N,) int64, which row of the update holds the token
    episode: Tensor  # (N,) int64
    action: Tensor  # (N,) int64, the action the token belongs to, numbered through all episodes
    num_words: Tensor  # (N,) float32, words of the token's action; 0 where nobody counted
    cut: Tensor  # (N,) bool, --max_new_tokens cut the token's action


Row = TokenRecord | RowArrays


def make_batch(
    rows: Sequence[Row], *, device: torch.device | str = "cpu", trim: bool = False
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


def acted_tokens(
    episodes: Sequence[EpisodeRecord], *, device: torch.device | str = "cpu"
) -> ActedTokens:
    """Return the acted tokens of episodes as flat tensors, without context."""
    rows = [(index, row) for index, episode in enumerate(episodes) for row in episode.rows]
    for _, row in rows:
        check_token_record(row)

    def flat(field_name: str, dtype: torch.dtype) -> Tensor:
        values = [*chain(*(compress(getattr(row, field_name), row.acted) for _, row in rows))]
        return torch.tensor(values, dtype=dtype, device=device)

    per_row = np.asarray([row.num_acted for _, row in rows], dtype=np.int64)
    row_of_token = torch.from_numpy(np.repeat(np.arange(len(rows)), per_row)).to(device)
    episode_of_row = torch.tensor([index for index, _ in rows], dtype=torch.int64, device=device)
    ends_action = flat("ends_action", torch.bool)
    action = ends_action.long().cumsum(0) - ends_action.long()
    return ActedTokens(
        rewards=flat("rewards", torch.float32),
        ends_action=ends_action,
        rollout_logprobs=flat("rollout_logprobs", torch.float32),
        row=row_of_token,
        episode=episode_of_row[row_of_token],
        action=action,
        num_words=torch.tensor(action_word_counts(episodes), dtype=torch.float32, device=device)[
            action
        ],
        cut=torch.tensor(truncated_action_flags(episodes), dtype=torch.bool, device=device)[action],
    )


def row_token_ids(rows: Iterable[Row]) -> list[NDArray[np.int64]]:
    """Return the token ids of each row."""
    return [np.asarray(row.ids, dtype=np.int64) for row in rows]


def length_to_last_acted(row: Row) -> int:
    """Return a row's length to its last acted token, that one included; 0 without one."""
    for index in range(len(row.acted) - 1, -1, -1):
        if row.acted[index]:
            return index + 1
    return 0


Minibatch = list[list[int]]  # the rows of one optimiser step, in microbatches


class Experience(NamedTuple):
    """Experience of an update: E valid episodes, their rows and their N acted tokens."""

    episodes: list[EpisodeRecord]  # each with at least one acted token
    rows: list[TokenRecord]  # each with at least one acted token, in order of episode and time
    lengths: list[int]  # tokens of each row that training passes over
    tokens: ActedTokens
    starts: Tensor  # (rows + 1,) the first acted token of each row, and N at the end
    sharing: PrefixSharing | None = None  # where passes share prefixes; None: rows are padded
    roles_apart: bool = False  # a pass holds rows of one role: each has weights of its own
    joint_rows: Sequence[RowArrays] | None = None  # of the rows, for a central critic
    progress: Tensor | None = None  # (N, F) before each token, where the critic reads it
    final_progress: Tensor | None = None  # (E, F) behind each episode

    def role_of_episode(self, episode: int) -> str:
        """Return the role of an episode; "" where roles do not have weights of their own."""
        return self.episodes[episode].role if self.roles_apart else ""

    def role_of_row(self, row: int) -> str:
        """Return the role of a row; "" where roles do not have weights of their own."""
        if not self.roles_apart:
            return ""
        return self.role_of_episode(int(self.tokens.episode[self.starts[row]]))

    def episode_groups(self) -> Tensor:
        """Return the group index of each episode, (E,).

        Equal for the same task and environment seed.
        """
        known: dict[object, int] = {}
        indices = [known.setdefault(episode.group_key, len(known)) for episode in self.episodes]
        return torch.tensor(indices, device=self.tokens.rewards.device)

    def token_turns(self) -> Tensor:
        """Return the turn of each acted token, (N,), from 1."""
        turns = torch.tensor(action_turns(self.episodes), device=self.tokens.action.device)
        return turns[self.tokens.action]

    def acted_counts(self) -> Tensor:
        """Return the number of acted tokens of each episode, (E,)."""
        return torch.bincount(self.tokens.episode, minlength=len(self.episodes))

    def trajectories(
        self, values: Tensor, bootstrap: Tensor | None = None, lam: Tensor | None = None
    ) -> Trajectories:
        """Return the acted tokens of each episode end to end, (E, L), padded on the right.

        Whether an episode is one row or one row a step makes no difference here, and context never
        enters. values, lam: (N,); bootstrap: (E,), None: 0.
        """
        counts = self.acted_counts()
        acted = torch.arange(int(counts.max()), device=values.device) < counts[:, None]  # (E, L)

        def padded(flat: Tensor) -> Tensor:
            return torch.zeros(acted.shape, dtype=flat.dtype, device=flat.device).masked_scatter_(
                acted, flat
            )

        return Trajectories(
            rewards=padded(self.tokens.rewards),
            values=padded(values),
            acted=acted,
            ends_action=padded(self.tokens.ends_action),
            bootstrap=values.new_zeros(len(acted)) if bootstrap is None else bootstrap,
            group=self.episode_groups(),
            lam=None if lam is None else padded(lam),
        )

    def pass_length(self, row: int) -> int:
        """Return the length of a pass over a row in tokens, or of its joint row if longer."""
        joint = 0 if self.joint_rows is None else length_to_last_acted(self.joint_rows[row])
        return max(self.lengths[row], joint)

    def critic_row(self, episode: int) -> Row:
        """Return the row that the critic reads for an episode."""
        last = self.episodes[episode].rows[-1]
        return last if self.joint_rows is None or last.joint is None else last.joint

    def trained_token_ids(self, rows: Sequence[int]) -> list[NDArray[np.int64]]:
        """Return the trained token ids of rows: those up to their last acted token."""
        whole = row_token_ids(self.rows[row] for row in rows)
        return [ids[: self.lengths[row]] for row, ids in zip(rows, whole, strict=True)]

    def token_groups(self, token_indices: Tensor) -> TokenGroups:
        """Return the groups of acted tokens: the action and the row of each."""
        return TokenGroups(
            action=self.tokens.action[token_indices],
            row=self.tokens.row[token_indices],
            num_words=self.tokens.num_words[token_indices],
        )

    def padding_share(self, minibatches: Sequence[Minibatch]) -> float:
        """Return the share of padding among the tokens of these minibatches."""
        passes = [rows for minibatch in minibatches for rows in minibatch]
        if self.sharing is None:
            groups = [[self.lengths[row] for row in rows] for rows in passes]
        elif self.sharing.by_segment:
            return 0.0
        else:  # the trees of a forest are padded to the longest
            trees = [self.sharing.build_tree(self.trained_token_ids(rows)) for rows in passes]
            groups = [[end - start for start, end in tree.tree_spans()] for tree in trees]
        return 1.0 - sum(map(sum, groups)) / sum(len(group) * max(group) for group in groups)

    def shared_token_share(self, minibatches: Sequence[Minibatch]) -> float:
        """Return the share of tokens that shared prefixes save in these minibatches."""
        if self.sharing is None:
            return 0.0
        passes = [self.trained_token_ids(rows) for minibatch in minibatches for rows in minibatch]
        computed = sum(len(self.sharing.build_tree(rows).ids) for rows in passes)
        return 1.0 - computed / sum(len(row) for rows in passes for row in rows)

    def rows_in_loss(
        self, minibatches: list[Minibatch], loss_mask: Tensor, config: TrainConfig
    ) -> list[Minibatch]:
        """Return the rows in the loss of minibatches, which --overlong mask decides."""
        if config.overlong != "mask":
            return minibatches
        rows = set(self.tokens.row[loss_mask].tolist())
        remaining = [
            [group for rows_ in minibatch if (group := [row for row in rows_ if row in rows])]
            for minibatch in minibatches
        ]
        return [minibatch for minibatch in remaining if minibatch]

    def batch(self, rows: Sequence[int]) -> tuple[Batch, Tensor]:
        """Return the batch of some rows, padded, and the indices of its acted tokens.

        The indices into `tokens` are in the order of the pass.
        """
        device = self.tokens.rewards.device
        batch = make_batch([self.rows[row] for row in rows], device=device, trim=True)
        if self.sharing is not None:
            batch = batch._replace(
                tree=self.sharing.build_tree(self.trained_token_ids(rows)).to(device)
            )
        if self.joint_rows is not None:
            joint = make_batch([self.joint_rows[row] for row in rows], device=device, trim=True)
            batch = batch._replace(critic_rows=CriticRows(*joint[:3]))
        indices = self.token_indices(rows)
        progress = None if self.progress is None else self.progress[indices]
        return batch._replace(role=self.role_of_row(rows[0]), progress=progress), indices

    def token_indices(self, rows: Iterable[int]) -> Tensor:
        """Return the indices of the acted tokens of rows among all acted tokens."""
        indices = [torch.arange(int(self.starts[row]), int(self.starts[row + 1])) for row in rows]
        return torch.cat(indices).to(self.tokens.rewards.device)


def build_experience(episodes: Sequence[EpisodeRecord], device: torch.device) -> Experience:
    """Build the experience of an update from the valid episodes with an acted token.

    Raises ValueError where there is none, naming the cause.
    """
    usable = [episode for episode in episodes if not episode.invalid and _acted_rows(episode)]
    if not usable:
        num_invalid = sum(episode.invalid for episode in episodes)
        raise ValueError(
            f"nothing to learn from: of {len(episodes)} episodes {num_invalid} are invalid "
            f"(infrastructure failed) and {len(episodes) - num_invalid} hold no acted token. Look "
            "at the environment's errors in the episode log, and whether --max_episode_tokens "
            "leaves room after the prompt."
        )
    tokens = acted_tokens(usable, device=device)
    rows = [row for episode in usable for row in _acted_rows(episode)]
    starts = torch.tensor([0, *(row.num_acted for row in rows)]).cumsum(0)
    return Experience(
        episodes=usable,
        rows=rows,
        lengths=[*map(length_to_last_acted, rows)],
        tokens=tokens,
        starts=starts,
    )


def _acted_rows(episode: EpisodeRecord) -> list[TokenRecord]:
    return [row for row in episode.rows if row.num_acted]
