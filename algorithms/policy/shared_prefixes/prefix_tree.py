"""Prefix tree (radix tree) of token rows: common first tokens occur once.

A segment is a run of tokens that the same rows have in common. Segments lie in depth-first order,
so that all descendants of a segment directly follow it. Then token i attends to token j exactly
where j <= i < end of the descendants of j's segment: no segment needs to know its children.

    rows          [5 6 7 | 8 9]  [5 6 7 | 4]  [5 6 7 | 4 2]
    tree.ids      5 6 7  4  2  8 9
    segments      [0, 3) with descendants up to 7;  [3, 4) up to 5;  [4, 5);  [5, 7)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ids = NDArray[np.int64]


class Segment(NamedTuple):
    """Segment of a prefix tree: tokens [start, end), followed by the tokens of its descendants."""

    start: int
    end: int
    descendants_end: int


class PrefixTree(NamedTuple):
    """Prefix tree: B rows of at most T tokens as U distinct tokens."""

    ids: Tensor  # (U,) int64
    positions: Tensor  # (U,) int64, of each token in its rows
    row_index: Tensor  # (B, T) int64, the tree token of each row token; 0 on padding
    segments: tuple[Segment, ...]  # in order of start
    fixed: int = 0  # tokens of the root that are read without gradient

    def to(self, device: torch.device | str) -> PrefixTree:
        """Move the tree's tensors to a device."""
        return self._replace(
            ids=self.ids.to(device),
            positions=self.positions.to(device),
            row_index=self.row_index.to(device),
        )

    def subtree_ends(self) -> Tensor:
        """Return the end index of each token's subtree, (U,), on the CPU.

        The token is attended to from itself up to there.
        """
        sizes = torch.tensor([segment.end - segment.start for segment in self.segments])
        ends = torch.tensor([segment.descendants_end for segment in self.segments])
        return ends.repeat_interleave(sizes)

    def tree_spans(self) -> list[tuple[int, int]]:
        """Return the span [start, end) of every tree of this forest."""
        bounds, end = list[tuple[int, int]](), 0
        for segment in self.segments:
            if segment.start == end:
                end = segment.descendants_end
                bounds.append((segment.start, end))
        return bounds


def build_tree(
    rows: Sequence[Ids], *, min_saving: int = 1, min_root_share: float = 0.0
) -> PrefixTree:
    """Build the tree of prefixes of rows of token ids.

    min_saving: a common run of n tokens with c branches after it saves (c - 1) n tokens. Where that
    is less, each branch gets a copy of the run, which saves a segment. min_root_share: rows share a
    root only if it is at least this share of the longest of them.
    """
    # Any order that puts rows with a common prefix side by side will do: that of the bytes is
    # compared in C. Then the prefix of a range of rows is the least of its neighbours' prefixes.
    order = sorted(range(len(rows)), key=lambda row: rows[row].tobytes())
    common = common_prefix_with_previous([rows[row] for row in order])
    row_index = np.zeros((len(rows), max(map(len, rows), default=0)), dtype=np.int64)
    ids, positions = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    levels, size = list[tuple[int, int, int]](), 0  # (start, end, depth in segments)
    # A stack in place of recursion: rows may branch at every token.
    pending = [(0, len(rows), 0, 0)] if rows else []  # rows order[low:high] from column `start` on
    while pending:
        low, high, start, level = pending.pop()
        members = order[low:high]
        end, branches = _branches(common, low, high, len(rows[members[0]]))
        # A copied run gets no segment here: its branches start again at its first column.
        copied = len(branches) > 1 and (
            (len(branches) - 1) * (end - start) < min_saving
            or (not level and end < min_root_share * max(len(rows[row]) for row in members))
        )
        if end > start and not copied:
            row_index[members, start:end] = np.arange(size, size + end - start)
            ids.append(rows[members[0]][start:end])
            positions.append(np.arange(start, end))
            levels.append((size, size + end - start, level))
            size, level = size + end - start, level + 1
        if len(branches) > 1:
            column = start if copied else end
            # Reversed: the first branch is popped next, and descendants follow their segment.
            pending += [(*branch, column, level) for branch in reversed(branches)]
    return PrefixTree(
        ids=torch.from_numpy(np.concatenate(ids)),
        positions=torch.from_numpy(np.concatenate(positions)),
        row_index=torch.from_numpy(row_index),
        segments=_segments(levels, size),
    )


def common_prefix_with_previous(rows: Sequence[Ids]) -> list[int]:
    """Return the length of each row's common prefix with the previous row."""
    common = [0]
    for before, row in itertools.pairwise(rows):
        shorter = min(len(before), len(row))
        differs = before[:shorter] != row[:shorter]
        common.append(int(differs.argmax()) if differs.any() else shorter)
    return common[: len(rows)]


def _branches(
    common: Sequence[int], low: int, high: int, length: int
) -> tuple[int, list[tuple[int, int]]]:
    """Return the common tokens of sorted rows [low, high), and the ranges that share more.

    `length` is that of row `low`.
    """
    if high - low == 1:
        return length, [(low, high)]
    end = min(common[low + 1 : high])
    # Neighbours that share no more than the whole range does belong to different branches.
    cuts = [low, *(row for row in range(low + 1, high) if common[row] == end), high]
    return end, list(itertools.pairwise(cuts))


def _segments(levels: Sequence[tuple[int, int, int]], size: int) -> tuple[Segment, ...]:
    """Return the segments of (start, end, level) in depth-first order.

    The descendants of one end where the next one of its own or a higher level starts.
    """
    segments, later = list[Segment](), list[tuple[int, int]]()  # later: (level, start), a stack
    # From the back, so that where the next segment of no deeper level starts is known already.
    for start, end, level in reversed(levels):
        while later and later[-1][0] > level:
            later.pop()
        segments.append(Segment(start, end, later[-1][1] if later else size))
        later.append((level, start))
    return tuple(reversed(segments))
