"""Experience of one update: its token rows and acted tokens, fixed while the policy learns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fctncalling.algorithms.algorithm import TokenGroups, Trajectories
from fctncalling.algorithms.episodes import EpisodeRecord, RowArrays, TokenRecord, action_facts


class ActedTokens(NamedTuple):
    """Acted tokens of an update, all N, flat: in order of episode, row and time.

    Every field is flat (N,) with one index a token.
    """

    rewards: Tensor  # (N,) float32
    ends_action: Tensor  # (N,) bool
    rollout_logprobs: Tensor  # (N,) float32
    row: Tensor  # (N,) int64, which of the rows with acted tokens holds the token
    episode: Tensor  # (N,) int64
    action: Tensor  # (N,) int64, the action the token belongs to, numbered through all episodes
    turn: Tensor  # (N,) int64, of the token's action in its episode, from 1
    num_words: Tensor  # (N,) float32, words of the token's action; 0 where nobody counted
    cut: Tensor  # (N,) bool, --max_new_tokens cut the token's action


Row = TokenRecord | RowArrays


def acted_tokens(
    episodes: Sequence[EpisodeRecord], *, device: torch.device | str = "cpu"
) -> ActedTokens:
    """Return the acted tokens of episodes as flat tensors, without context."""
    rows = [
        (index, row)
        for index, episode in enumerate(episodes)
        for row in episode.rows
        if row.num_acted
    ]
    actions = action_facts(episodes)

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
        turn=torch.tensor(actions.turns, dtype=torch.int64, device=device)[action],
        num_words=torch.tensor(actions.num_words, dtype=torch.float32, device=device)[action],
        cut=torch.tensor(actions.cut, dtype=torch.bool, device=device)[action],
    )


def length_to_last_acted(row: Row) -> int:
    """Return a row's length to its last acted token, that one included; 0 without one."""
    for index in range(len(row.acted) - 1, -1, -1):
        if row.acted[index]:
            return index + 1
    return 0


class Experience(NamedTuple):
    """Experience of an update: E valid episodes, their rows and their N acted tokens."""

    episodes: list[EpisodeRecord]  # each with at least one acted token
    rows: list[TokenRecord]  # each with at least one acted token, in order of episode and time
    lengths: list[int]  # tokens of each row that training passes over
    tokens: ActedTokens
    starts: Tensor  # (rows + 1,) the first acted token of each row, and N at the end
    episode_of_row: Tensor  # (rows,) int64
    groups: Tensor  # (E,) int64, equal for the same task, environment seed and role
    num_acted: Tensor  # (E,) int64, acted tokens of each episode

    def trajectories(
        self, values: Tensor, bootstrap: Tensor | None = None, lam: Tensor | None = None
    ) -> Trajectories:
        """Return the acted tokens of each episode end to end, (E, L), padded on the right.

        Whether an episode is one row or one row a step makes no difference here, and context never
        enters. values, lam: (N,); bootstrap: (E,), None: 0.
        """
        counts = self.num_acted[:, None]
        acted = torch.arange(int(counts.max()), device=values.device) < counts  # (E, L)

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
            group=self.groups,
            lam=None if lam is None else padded(lam),
        )

    def token_groups(self, token_indices: Tensor) -> TokenGroups:
        """Return the groups of acted tokens: the action and the row of each."""
        return TokenGroups(
            action=self.tokens.action[token_indices],
            row=self.tokens.row[token_indices],
            num_words=self.tokens.num_words[token_indices],
        )

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
    known: dict[object, int] = {}
    groups = [known.setdefault(episode.group_key, len(known)) for episode in usable]
    return Experience(
        episodes=usable,
        rows=rows,
        lengths=[*map(length_to_last_acted, rows)],
        tokens=tokens,
        starts=starts,
        episode_of_row=tokens.episode[starts[:-1]],
        groups=torch.tensor(groups, device=device),
        num_acted=torch.bincount(tokens.episode, minlength=len(usable)),
    )


def _acted_rows(episode: EpisodeRecord) -> list[TokenRecord]:
    return [row for row in episode.rows if row.num_acted]
