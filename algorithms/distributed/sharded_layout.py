"""The update batch of several processes: each lays out its own share of the episodes.

To lay out means to check Python lists of tokens and to make arrays of them, which costs every
process more than a second per ten million tokens. The arrays are then passed on, at the speed of
the network, so all processes plan the same minibatches and get the figures that one process would.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fctncalling.algorithms.batch import (
    ActedTokens,
    Experience,
    acted_tokens,
    build_experience,
    trained_length,
    usable_episodes,
)
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord, RowArrays


class LaidOut(NamedTuple):
    """Episodes laid out by one process: R rows, T tokens, N acted tokens, A actions."""

    episode: NDArray[np.int64]  # (R,) index of each row's episode in the update
    lengths: NDArray[np.int64]  # (R,) tokens
    trained: NDArray[np.int64]  # (R,) of these, tokens that training passes over
    num_acted: NDArray[np.int64]  # (R,)
    num_actions: NDArray[np.int64]  # (R,)
    ids: NDArray[np.int32]  # (T,)
    acted: NDArray[np.bool_]  # (T,)
    rewards: NDArray[np.float32]  # (N,)
    ends_action: NDArray[np.bool_]  # (N,)
    rollout_logprobs: NDArray[np.float32]  # (N,)
    num_words: NDArray[np.float32]  # (A,)
    cut: NDArray[np.bool_]  # (A,)


def sharded_experience(
    episodes: Sequence[EpisodeRecord], policy: nn.Module, processes: ProcessGroup
) -> Experience:
    """Return `build_experience` of the episodes on the policy's device.

    Each process lays out its share, so this is a collective operation.
    """
    device = next(policy.parameters()).device
    if processes.count == 1:
        return build_experience(episodes, device)
    usable = usable_episodes(episodes)
    own = range(processes.rank, len(usable), processes.count)
    return merge(usable, processes.gather(lay_out(usable, own)), device)


def lay_out(episodes: Sequence[EpisodeRecord], numbers: Sequence[int]) -> LaidOut:
    """Return the episodes of these numbers as arrays."""
    own = [episodes[number] for number in numbers]
    rows = [(number, row) for number in numbers for row in episodes[number].rows]
    tokens = acted_tokens(own)
    ends = tokens.ends_action.numpy()

    def of_rows(values: Sequence[int]) -> NDArray[np.int64]:
        return np.asarray(values, dtype=np.int64)

    return LaidOut(
        episode=of_rows([number for number, _ in rows]),
        lengths=of_rows([len(row.ids) for _, row in rows]),
        trained=of_rows([trained_length(row) for _, row in rows]),
        num_acted=of_rows([sum(row.acted) for _, row in rows]),
        num_actions=of_rows([sum(row.ends_action) for _, row in rows]),
        ids=np.fromiter(itertools.chain.from_iterable(row.ids for _, row in rows), np.int32),
        acted=np.fromiter(itertools.chain.from_iterable(row.acted for _, row in rows), np.bool_),
        rewards=tokens.rewards.numpy(),
        ends_action=ends,
        rollout_logprobs=tokens.rollout_logprobs.numpy(),
        num_words=tokens.num_words.numpy()[ends],
        cut=tokens.cut.numpy()[ends],
    )


def merge(
    episodes: list[EpisodeRecord], parts: Sequence[LaidOut], device: torch.device
) -> Experience:
    """Return the update batch of all processes' parts, in the order of the episodes."""
    part = LaidOut(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    order = np.argsort(part.episode, kind="stable")  # a whole episode is in one part
    rows = _row_arrays(part, order)
    num_acted = part.num_acted[order]
    has_acted = np.flatnonzero(num_acted)

    def flat(values: NDArray[np.generic], sizes: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(_segments(values, sizes, order)).to(device)

    ends_action = flat(part.ends_action, part.num_acted)
    action = ends_action.long().cumsum(0) - ends_action.long()
    row = torch.from_numpy(np.repeat(np.arange(len(rows)), num_acted)).to(device)
    episode = torch.from_numpy(np.repeat(part.episode[order], num_acted)).to(device)
    tokens = ActedTokens(
        rewards=flat(part.rewards, part.num_acted),
        ends_action=ends_action,
        rollout_logprobs=flat(part.rollout_logprobs, part.num_acted),
        row=row,
        episode=episode,
        action=action,
        num_words=flat(part.num_words, part.num_actions)[action],
        cut=flat(part.cut, part.num_actions)[action],
    )
    last = np.searchsorted(part.episode[order], np.arange(len(episodes)), side="right") - 1
    return Experience(
        episodes=episodes,
        rows=[rows[index] for index in has_acted],
        lengths=part.trained[order][has_acted].tolist(),
        tokens=tokens,
        starts=torch.from_numpy(np.concatenate([[0], num_acted[has_acted].cumsum()])),
        last_rows=[rows[index] for index in last],
    )


def _row_arrays(part: LaidOut, order: NDArray[np.int64]) -> list[RowArrays]:
    """Return the rows in this order, as views."""
    ends = part.lengths.cumsum()
    starts = ends - part.lengths
    return [
        RowArrays(part.ids[starts[row] : ends[row]], part.acted[starts[row] : ends[row]])
        for row in order
    ]


def _segments(
    values: NDArray[np.generic], sizes: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.generic]:
    """Return segments of these sizes, which lie one after another, in another order."""
    starts, new_sizes = sizes.cumsum() - sizes, sizes[order]
    shift = np.repeat(starts[order] - (new_sizes.cumsum() - new_sizes), new_sizes)
    moved: NDArray[np.generic] = values[shift + np.arange(len(values))]
    return moved
