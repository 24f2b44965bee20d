"""Exact tests of a difference between two groups of runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray


def sign_flips(differences: Sequence[float]) -> float:
    """Return the exact two-sided p of a mean paired difference of 0, over all sign flips."""
    observed = abs(sum(differences)) - 1e-9  # sums that differ by rounding alone are equal
    sums = np.abs(_all_signs(len(differences)) @ np.asarray(differences))
    return float(np.mean(sums >= observed))


@cache
def _all_signs(count: int) -> NDArray[np.float64]:
    """Return every choice of `count` signs, a row each."""
    return np.array(list(product((1.0, -1.0), repeat=count)))


def mann_whitney(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the exact two-sided p of the rank-sum test, over all splits of the ranks."""
    pooled = sorted([*left, *right])
    # Twice a mean rank is whole: places of the first and the last of equals, added up.
    rank = {x: pooled.index(x) + len(pooled) - pooled[::-1].index(x) + 1 for x in pooled}
    counts = _rank_sums(tuple(rank[x] for x in pooled), len(left))
    centre = len(left) * (len(pooled) + 1)
    observed = abs(sum(rank[x] for x in left) - centre)
    extreme = sum(count for total, count in counts.items() if abs(total - centre) >= observed)
    return extreme / sum(counts.values())


@cache
def _rank_sums(ranks: tuple[int, ...], size: int) -> dict[int, int]:
    """Return the number of subsets of `size` ranks by their sum."""
    tables: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            for total, count in tables[chosen - 1].items():
                tables[chosen][total + rank] = tables[chosen].get(total + rank, 0) + count
    return tables[size]
