"""Grades of values and advantages against the truth: pure functions of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fctncalling.lab.credit.ruler import Vector

SMALLEST = 0.05  # an advantage below it is not called significant, however exact its truth is
BOOTSTRAP_DRAWS = 200
SILENT = 1e-9  # an estimate below it says nothing
Index = NDArray[np.int64]


def explained_variance(truth: Vector, values: Vector) -> float:
    """Return 1 - Var(truth - values) / Var(truth); 0 if the truth is constant."""
    spread = float(np.var(truth))
    return 1.0 - float(np.var(truth - values)) / spread if spread > SILENT else 0.0


def value_grades(truth: Vector, values: Vector, task: Index) -> dict[str, float]:
    """Grade values: explained variance (overall, between, within tasks), bias, Spearman."""
    means_true = _task_means(truth, task)
    means = _task_means(values, task)
    return {
        "explained_variance": explained_variance(truth, values),
        "between": explained_variance(means_true, means),
        "within": explained_variance(truth - means_true, values - means),
        "bias": float(np.mean(values - truth)),
        "spearman": spearman(truth, values),
    }


def return_variance_shares(
    values: Sequence[Vector],
    advantages: Sequence[Vector],
    errors: tuple[Sequence[Vector], Sequence[Vector]],
    turns: Sequence[Sequence[int]],
    discount: float,
) -> dict[str, Any]:
    """Split the variance of returns between tasks and the actions of each turn.

    A return is V before the first action plus the discounted advantages, which are uncorrelated
    where tools are deterministic, so its variance is the sum of theirs. errors: the variances of
    the values' means and the standard errors of the advantages, which are taken off. Shares add up
    to 1; a noisy one may be negative.
    """
    value_variances, standard_errors = errors
    between = float(np.var([at[0] for at in values]) - np.mean([at[0] for at in value_variances]))
    by_turn: dict[int, float] = {}
    for truth, error, at in zip(advantages, standard_errors, turns, strict=True):
        squares = discount ** (2 * np.arange(len(truth))) * (truth**2 - error**2)
        for turn, square in zip(at, squares, strict=True):
            by_turn[turn] = by_turn.get(turn, 0.0) + float(square) / len(values)
    total = between + sum(by_turn.values())
    share = 1.0 / total if total > SILENT else 0.0
    return {
        "between_tasks": between * share,
        "by_turn": {str(turn): by_turn[turn] * share for turn in sorted(by_turn)},
    }


def advantage_grades(truth: Vector, errors: Vector, estimate: Vector) -> dict[str, float]:
    """Grade an estimator's advantages.

    sign: share of significant actions whose sign it gets right, a silent estimate being wrong;
    sign_where_it_speaks and speaks tell these apart. spearman: over all actions.
    """
    matters = significance_mask(truth, errors)
    speaks = matters & (np.abs(estimate) > SILENT)
    right = speaks & (np.sign(estimate) == np.sign(truth))
    return {
        "sign": _share(right, matters),
        "sign_where_it_speaks": _share(right, speaks),
        "speaks": _share(speaks, matters),
        "spearman": spearman(truth, estimate),
    }


def significance_mask(truth: Vector, errors: Vector) -> NDArray[np.bool_]:
    """Return which advantages are two standard errors and SMALLEST away from 0."""
    is_significant: NDArray[np.bool_] = np.abs(truth) > np.maximum(2 * errors, SMALLEST)
    return is_significant


def pairwise_ranking_accuracy(
    truth: Vector, errors: Vector, estimate: Vector, group: Index
) -> dict[str, float]:
    """Return how often pairs of actions of one state are ranked correctly.

    right: pairs whose truths differ by two standard errors; with_ties: all pairs, a tie of the
    truth counting as wrong, as VinePPO's analysis counts it.
    """
    pairs = right_of_all = clear = right = 0
    for number in np.unique(group):
        places = np.flatnonzero(group == number)
        for index, first in enumerate(places):
            for second in places[:index]:
                gap = truth[first] - truth[second]
                agrees = gap * (estimate[first] - estimate[second]) > 0
                pairs += 1
                right_of_all += bool(agrees)
                if abs(gap) > max(2 * float(np.hypot(errors[first], errors[second])), SMALLEST):
                    clear += 1
                    right += bool(agrees)
    return {
        "right": right / clear if clear else 0.0,
        "with_ties": right_of_all / pairs if pairs else 0.0,
        "clear_pairs": float(clear),
        "pairs": float(pairs),
    }


def spearman(first: Vector, second: Vector) -> float:
    """Return Spearman's rank correlation, ties by mean rank; 0 if one side is constant."""
    ranks = average_ranks(first), average_ranks(second)
    spread = float(np.std(ranks[0]) * np.std(ranks[1]))
    if spread < SILENT:
        return 0.0
    centred = [rank - rank.mean() for rank in ranks]
    return float(np.mean(centred[0] * centred[1]) / spread)


def average_ranks(values: Vector) -> Vector:
    """Return ranks from 0; tied values share their mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Vector = (ends - (counts + 1) / 2.0)[index]
    return ranks


def bootstrap_interval(grade: Callable[[Index], float], task: Index) -> tuple[float, float]:
    """Return the 95 % interval of a grade over draws of whole tasks (cluster bootstrap)."""
    generator = np.random.default_rng(0)
    places = [np.flatnonzero(task == number) for number in np.unique(task)]
    grades = [
        grade(np.concatenate([places[n] for n in generator.integers(0, len(places), len(places))]))
        for _ in range(BOOTSTRAP_DRAWS)
    ]
    low, high = np.percentile(grades, [2.5, 97.5])
    return float(low), float(high)


def _task_means(values: Vector, task: Index) -> Vector:
    _, index = np.unique(task, return_inverse=True)
    sums = np.bincount(index, values)
    means: Vector = (sums / np.bincount(index))[index]
    return means


def _share(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else 0.0


def concatenate_episodes(parts: Sequence[Vector]) -> Vector:
    """Return the episodes' arrays end to end."""
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
