"""The exact tests of benchmarks/learning_report.py, against enumeration and closed forms."""

from __future__ import annotations

import random
import sys
from itertools import combinations
from math import comb
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from learning_report import mann_whitney, sign_flips


def enumerated(one: list[float], other: list[float]) -> float:
    """Return the p of the rank-sum test by going through every way to part the ranks."""
    pooled = sorted(one + other)
    ranks = [pooled.index(x) + pooled.count(x) / 2 for x in one + other]
    centre = len(one) * (sum(ranks) / len(ranks))
    sums = [
        abs(sum(part) - centre) >= abs(sum(ranks[: len(one)]) - centre) - 1e-9
        for part in combinations(ranks, len(one))
    ]
    return sum(sums) / len(sums)


def test_the_rank_sum_test_is_exact_with_ties_and_without() -> None:
    draw = random.Random(0)
    for values in (4, 100):
        for _ in range(20):
            one, other = ([float(draw.randrange(values)) for _ in range(size)] for size in (5, 4))
            assert mann_whitney(one, other) == pytest.approx(enumerated(one, other))
    assert mann_whitney([1, 2, 3], [4, 5, 6]) == pytest.approx(0.1)  # 2 of 20
    assert mann_whitney([0.1] * 10, [0.2] * 10) == pytest.approx(2 / 184756)
    assert mann_whitney([1, 2, 3], [1, 2, 3]) == 1.0


def test_the_paired_test_is_exact() -> None:
    assert sign_flips([0.1] * 10) == pytest.approx(
        2 / 2**10
    )  # all signs alike: the two most extreme
    assert sign_flips([0.1, 0.1, 0.3]) == pytest.approx(2 / 8)
    assert sign_flips([0.2, -0.2]) == 1.0
    # Of equal differences only the number of signs counts: the binomial sign test, here 8 of 10.
    assert sign_flips([0.1] * 8 + [-0.1] * 2) == pytest.approx(
        2 * sum(comb(10, k) for k in range(3)) / 2**10
    )
    assert sign_flips([0.3, 0.2, -0.1]) == pytest.approx(
        4 / 8
    )  # sums 0.6, 0.4, 0.2, 0.0 and their negatives
