"""Recursions seen in public code, with the numbers they give: ours must give none of them.

Each is written out here as it was found: one backward pass over the tokens of an episode.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fctncalling.algorithms.advantages import decomposed_gae

Scan = Callable[[list[float], list[float], list[bool]], tuple[list[float], list[float]]]

GAMMA, LAM = 0.9, 0.8


def backward(
    rewards: list[float], values: list[float], discounts: list[float], traces: list[float]
) -> tuple[list[float], list[float]]:
    """Return advantages and targets of a recursion,
    given what stands between a token and the next.
    """
    advantages, later, later_value = list[float](), 0.0, 0.0
    for reward, value, discount, trace in zip(
        *(reversed(x) for x in (rewards, values, discounts, traces)), strict=True
    ):
        later = reward + discount * later_value - value + trace * later
        later_value = value
        advantages.insert(0, later)
    return advantages, [a + v for a, v in zip(advantages, values, strict=True)]


def trace_discounted_inside(
    rewards: list[float], values: list[float], ends: list[bool]
) -> tuple[list[float], list[float]]:
    """The value inside an action is not discounted, but the trace is."""
    return backward(
        rewards, values, [GAMMA if end else 1.0 for end in ends], [GAMMA * LAM] * len(ends)
    )


def turn_value_behind_the_action(
    rewards: list[float], values: list[float], ends: list[bool]
) -> tuple[list[float], list[float]]:
    """First an estimate by turn, whose value is that of its last token; then one by token inside
    the turn.
    """
    last = [i for i, end in enumerate(ends) if end]
    of_turn = backward(
        [rewards[i] for i in last], [values[i] for i in last], [GAMMA] * 2, [GAMMA * LAM] * 2
    )
    targets = [of_turn[1][sum(ends[:i])] for i in range(len(ends))]
    return [target - value for target, value in zip(targets, values, strict=True)], targets


@pytest.mark.parametrize(
    ("scan", "targets"),
    [
        (trace_discounted_inside, [0.752289, 0.928179, 1.21136, 0.888, 1.0]),
        (turn_value_behind_the_action, [1.328, 1.328, 1.328, 1.0, 1.0]),
    ],
)
def test_targets_of_other_recursions_on_the_two_actions(scan: Scan, targets: list[float]) -> None:
    rewards, values = [0.0, 0.0, 0.5, 0.0, 1.0], [0.1, 0.3, 0.2, 0.4, 0.6]
    ends = [False, False, True, False, True]
    assert scan(rewards, values, ends)[1] == pytest.approx(targets, abs=1e-6)
    _, ours = decomposed_gae(
        *as_rows(rewards, values), *as_rows([True] * 5, ends), torch.zeros(1), gamma=GAMMA, lam=LAM
    )
    assert ours[0].tolist() == pytest.approx([1.292, 1.292, 1.292, 1.0, 1.0], abs=1e-6)


def test_a_trace_discounted_inside_actions_is_the_naive_estimate_where_nothing_is_known() -> None:
    # Lambda 1, no critic: only the traces are left.
    wrong = backward(
        [0.0, 0.0, 0.0, 0.0, 1.0], [0.0] * 5, [1.0, 1.0, GAMMA, 1.0, GAMMA], [GAMMA] * 5
    )[1]
    assert wrong == pytest.approx([0.6561, 0.729, 0.81, 0.9, 1.0])


def test_what_becomes_of_credit_where_context_between_actions_is_not_skipped() -> None:
    acted, rewards = [True, True, False, False, False, True], [0.0] * 5 + [1.0]
    zeroed, raw = ([0.5 if a else other for a in acted] for other in (0.0, 0.7))
    gamma, lam = [0.95] * 6, [0.95 * 0.9] * 6
    carried = [
        0.0 if not after else factor
        for factor, after in zip(gamma, [*acted[1:], False], strict=True)
    ]
    cut = [
        0.0 if not after else factor for factor, after in zip(lam, [*acted[1:], False], strict=True)
    ]
    for values, discounts, traces, wanted in (
        (zeroed, gamma, lam, [0.029794, 0.064086, 0.5]),  # values hidden, time still passes
        (raw, gamma, lam, [0.176829, 0.236057, 0.5]),  # no mask at all
        (raw, carried, cut, [-0.4525, -0.5, 0.5]),  # what follows an action is taken for the end
    ):
        advantages, _ = backward(rewards, values, discounts, traces)
        assert [a for a, kept in zip(advantages, acted, strict=True) if kept] == pytest.approx(
            wanted, abs=1e-6
        )
    ours, _ = decomposed_gae(
        *as_rows(rewards, raw), *as_rows(acted, [True] * 6), torch.zeros(1), gamma=0.95, lam=0.9
    )
    assert ours[0][torch.tensor(acted)].tolist() == pytest.approx([0.319137, 0.4025, 0.5], abs=1e-6)


def as_rows(*columns: list[float] | list[bool]) -> list[torch.Tensor]:
    return [torch.tensor([column]) for column in columns]
