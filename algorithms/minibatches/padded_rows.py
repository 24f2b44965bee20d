"""Microbatches of rows of similar length, to be padded to one length."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MAX_PADDING_SHARE = 0.08  # padding among the tokens that one optimiser step passes over


def microbatches(
    lengths: Sequence[int],
    *,
    max_tokens: int,
    num_parts: int = 1,
    max_padding_share: float = MAX_PADDING_SHARE,
) -> list[list[int]]:
    """Return row indices in few groups of similar length, the shortest rows first.

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
