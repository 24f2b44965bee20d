"""Grades of values and advantages, by hand-made arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fctncalling.lab.credit.grading import (
    advantage_grades,
    average_ranks,
    bootstrap_interval,
    explained_variance,
    pairwise_ranking_accuracy,
    return_variance_shares,
    spearman,
    value_grades,
)

TASK = np.asarray([0, 0, 1, 1])
TRUTH = np.asarray([0.0, 0.2, 0.8, 1.0])


def test_explained_variance_of_the_truth_is_1_and_of_a_constant_0() -> None:
    assert explained_variance(TRUTH, TRUTH + 3) == 1
    assert explained_variance(TRUTH, np.full(4, 0.7)) == 0
    assert explained_variance(np.ones(4), TRUTH) == 0


def test_a_guess_of_difficulty_scores_between_tasks_alone() -> None:
    grades = value_grades(TRUTH, np.asarray([0.1, 0.1, 0.9, 0.9]), TASK)
    assert grades["between"] == pytest.approx(1)
    assert grades["within"] == 0
    assert grades["explained_variance"] == pytest.approx(1 - 0.01 / np.var(TRUTH))


def test_moments_of_a_task_score_within_tasks_alone() -> None:
    grades = value_grades(TRUTH, np.asarray([0.0, 0.2, 0.0, 0.2]), TASK)
    assert grades["within"] == pytest.approx(1)
    assert grades["between"] == 0


@given(
    payoffs=st.lists(st.floats(-2, 2), min_size=8, max_size=8),
    discount=st.floats(0.5, 1),
)
def test_shares_of_variance_are_those_of_all_outcomes(
    payoffs: list[float], discount: float
) -> None:
    """Two tasks of two fair coins each, all outcomes played once: variances are exact."""
    tasks = np.asarray(payoffs).reshape(2, 2, 2)  # task, first coin, second coin
    middle = tasks.mean(2)
    start = discount * middle.mean(1)
    values, advantages = list[np.ndarray](), list[np.ndarray]()
    for task, first, second in np.ndindex(2, 2, 2):
        values.append(np.asarray([start[task], middle[task, first]]))
        gains = discount * middle[task, first] - start[task]
        advantages.append(np.asarray([gains, tasks[task, first, second] - middle[task, first]]))
    exact = [np.zeros(2)] * 8
    shares = return_variance_shares(values, advantages, (exact, exact), [[0, 1]] * 8, discount)
    spread = float(np.var(discount * tasks))
    if spread < 1e-6:
        return
    assert shares["between_tasks"] == pytest.approx(np.var(start) / spread, abs=1e-6)
    firsts = np.var(discount * middle - start[:, None])
    assert shares["by_turn"]["0"] == pytest.approx(firsts / spread, abs=1e-6)
    assert shares["between_tasks"] + sum(shares["by_turn"].values()) == pytest.approx(1)


def test_the_truths_own_noise_is_no_share_of_the_variance() -> None:
    """Advantages that are all noise leave the variance of returns to the tasks."""
    noise = np.random.default_rng(3).normal(0, 0.1, (400, 5))
    errors = ([np.zeros(5)] * 400, [np.full(5, 0.1)] * 400)
    values = [np.full(5, float(task % 2)) for task in range(400)]
    shares = return_variance_shares(values, list(noise), errors, [[0, 0, 1, 1, 1]] * 400, 1.0)
    assert shares["between_tasks"] == pytest.approx(1, abs=0.02)
    assert return_variance_shares(
        [np.ones(1)], [np.zeros(1)], ([np.zeros(1)],) * 2, [[0]], 1.0
    ) == {
        "between_tasks": 0.0,
        "by_turn": {"0": 0.0},
    }


def test_signs_count_where_the_action_matters_and_silence_is_wrong() -> None:
    truth = np.asarray([0.5, -0.5, 0.5, 0.01, -0.4])
    grades = advantage_grades(truth, np.full(5, 0.02), np.asarray([1.0, -0.1, 0.0, -9.0, 0.3]))
    assert grades["sign"] == 2 / 4
    assert grades["speaks"] == 3 / 4
    assert grades["sign_where_it_speaks"] == 2 / 3


def test_ties_of_the_truth_are_told_apart_in_rankings() -> None:
    group = np.zeros(3, dtype=np.int64)
    grades = pairwise_ranking_accuracy(
        np.asarray([0.0, 0.0, 1.0]), np.full(3, 0.01), np.asarray([1.0, 2.0, 3.0]), group
    )
    assert grades["right"] == 1
    assert grades["with_ties"] == 2 / 3
    assert (grades["clear_pairs"], grades["pairs"]) == (2, 3)


def test_ranks_of_ties_are_their_mean() -> None:
    assert average_ranks(np.asarray([3.0, 1.0, 3.0, 2.0])).tolist() == [2.5, 0, 2.5, 1]


@given(st.lists(st.floats(-5, 5, width=16), min_size=3, max_size=12))
def test_spearman_knows_only_the_order(values: list[float]) -> None:
    array = np.asarray(values)
    same = spearman(array, array**3)
    assert same == pytest.approx(1) if np.std(array) > 0 else same == 0
    assert spearman(array, -array) == pytest.approx(-same)


def test_intervals_draw_whole_tasks() -> None:
    low, high = bootstrap_interval(lambda index: float(TRUTH[index].mean()), TASK)
    assert (low, high) == pytest.approx((0.1, 0.9))
