"""Advantages: closed forms of the recursion, and what must not change them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fctncalling.algorithms.advantages import action_gae, decomposed_gae, explained_variance, whiten

torch.set_num_threads(1)

Action = tuple[list[float], float]  # values of its tokens, reward


def timeline(actions: list[Action]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return rewards, values, acted, ends_action, each (1, T), fp64, of actions without context
    between them.
    """
    rewards = [reward if last else 0.0 for values, reward in actions for last in _last(len(values))]
    ends_action = [last for values, _ in actions for last in _last(len(values))]
    values = [value for tokens, _ in actions for value in tokens]
    return (
        torch.tensor([rewards], dtype=torch.float64),
        torch.tensor([values], dtype=torch.float64),
        torch.ones(1, len(values), dtype=torch.bool),
        torch.tensor([ends_action]),
    )


def _last(length: int) -> list[bool]:
    return [index == length - 1 for index in range(length)]


def gae(
    actions: list[Action],
    bootstrap: float = 0.0,
    *,
    gamma: float,
    lam: float,
    gamma_token: float = 1.0,
    lam_token: float = 1.0,
) -> tuple[list[float], list[float]]:
    rewards, values, acted, ends_action = timeline(actions)
    end = torch.tensor([bootstrap], dtype=torch.float64)
    advantages, returns = decomposed_gae(
        rewards,
        values,
        acted,
        ends_action,
        end,
        gamma=gamma,
        lam=lam,
        gamma_token=gamma_token,
        lam_token=lam_token,
    )
    return advantages[0].tolist(), returns[0].tolist()


def gae_of_actions(
    actions: list[Action], bootstrap: float, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    rewards = torch.tensor([[reward for _, reward in actions]], dtype=torch.float64)
    values = torch.tensor([[values[0] for values, _ in actions]], dtype=torch.float64)
    valid = torch.ones_like(values, dtype=torch.bool)
    return action_gae(
        rewards, values, valid, torch.tensor([bootstrap], dtype=torch.float64), gamma=gamma, lam=lam
    )


def exactly(expected: list[float]) -> object:
    return pytest.approx(expected, abs=1e-9)


GAMMA, LAM = 0.9, 0.8
TWO_ACTIONS: list[Action] = [([0.1, 0.3, 0.2], 0.5), ([0.4, 0.6], 1.0)]


@pytest.mark.parametrize("lengths", [(3, 2), (1, 1), (1, 7), (40, 3)])
def test_with_no_critic_the_target_is_the_discounted_outcome_at_any_length(
    lengths: tuple[int, int],
) -> None:
    actions: list[Action] = [([0.0] * lengths[0], 0.0), ([0.0] * lengths[1], 1.0)]
    _, returns = gae(actions, gamma=GAMMA, lam=1.0)
    assert returns == exactly([0.9] * lengths[0] + [1.0] * lengths[1])


def test_discounting_every_token_gives_the_naive_targets_which_ours_must_not_be() -> None:
    actions: list[Action] = [([0.0] * 3, 0.0), ([0.0] * 2, 1.0)]
    _, naive = gae(actions, gamma=GAMMA, lam=1.0, gamma_token=GAMMA, lam_token=1.0)
    assert naive == exactly([0.6561, 0.729, 0.81, 0.9, 1.0])
    _, ours = gae(actions, gamma=GAMMA, lam=1.0)
    assert ours == exactly([0.9, 0.9, 0.9, 1.0, 1.0])


@pytest.mark.parametrize(
    ("gamma_token", "lam_token", "advantages", "returns"),
    [
        (1.0, 1.0, [1.192, 0.992, 1.092, 0.6, 0.4], [1.292, 1.292, 1.292, 1.0, 1.0]),
        (1.0, LAM, [0.782016, 0.72752, 1.0344, 0.52, 0.4], [0.882016, 1.02752, 1.2344, 0.92, 1.0]),
        (
            GAMMA,
            LAM,
            [0.585494144, 0.5770752, 0.96816, 0.428, 0.4],
            [0.685494144, 0.8770752, 1.16816, 0.828, 1.0],
        ),
    ],
    ids=["exact", "as_published", "naive"],
)
def test_general_values_give_the_hand_computed_advantages(
    gamma_token: float, lam_token: float, advantages: list[float], returns: list[float]
) -> None:
    got = gae(TWO_ACTIONS, gamma=GAMMA, lam=LAM, gamma_token=gamma_token, lam_token=lam_token)
    assert got[0] == exactly(advantages)
    assert got[1] == exactly(returns)


def test_action_level_estimate_of_the_same_episode() -> None:
    advantages, returns = gae_of_actions(TWO_ACTIONS, 0.0, GAMMA, LAM)
    assert advantages[0].tolist() == exactly([1.192, 0.6])
    assert returns[0].tolist() == exactly([1.292, 1.0])


@pytest.mark.parametrize(("gamma_token", "lam_token"), [(1.0, 1.0), (1.0, LAM), (GAMMA, LAM)])
def test_one_token_actions_make_every_variant_the_action_level_one(
    gamma_token: float, lam_token: float
) -> None:
    actions: list[Action] = [([0.1], 0.5), ([0.4], 1.0)]
    advantages, _ = gae(actions, gamma=GAMMA, lam=LAM, gamma_token=gamma_token, lam_token=lam_token)
    assert advantages == exactly([1.192, 0.6])


@pytest.mark.parametrize("context", [0.7, math.nan, math.inf])
@pytest.mark.parametrize("gap", [0, 1, 3, 1000])
def test_context_between_actions_changes_nothing_whatever_it_holds(
    gap: int, context: float
) -> None:
    acted = torch.tensor([[True, True] + [False] * gap + [True]])
    values = torch.where(acted, 0.5, context)
    rewards = torch.where(acted, 0.0, context)
    rewards[0, -1] = 1.0
    ends_action = torch.ones_like(acted)  # every token an action: plain GAE
    advantages, returns = decomposed_gae(
        rewards, values, acted, ends_action, torch.zeros(1), gamma=0.95, lam=0.9
    )
    assert advantages[acted].tolist() == pytest.approx([0.3191375, 0.4025, 0.5], abs=1e-6)
    assert not advantages[~acted].any()
    assert not returns[~acted].any()


def test_truncation_bootstraps_and_termination_does_not() -> None:
    action: list[Action] = [([0.1, 0.3, 0.2], 0.5)]
    assert gae(action, bootstrap=0.4, gamma=GAMMA, lam=LAM)[0] == exactly([0.76, 0.56, 0.66])
    assert gae(action, bootstrap=0.0, gamma=GAMMA, lam=LAM)[0] == exactly([0.4, 0.2, 0.3])
    # One-step differences: the end touches the last token's alone.
    truncated, ended = (
        gae(action, end, gamma=GAMMA, lam=0.0, lam_token=0.0)[0] for end in (0.4, 0.0)
    )
    assert [one - other for one, other in zip(truncated, ended, strict=True)] == exactly(
        [0.0, 0.0, GAMMA * 0.4]
    )


def test_rows_of_one_batch_do_not_touch_each_other() -> None:
    short, long = timeline([([0.3], 1.0)]), timeline(TWO_ACTIONS)
    padded = [torch.cat([tensor, torch.zeros(1, 4, dtype=tensor.dtype)], dim=1) for tensor in short]
    rewards, values, acted, ends_action = (
        torch.cat(pair) for pair in zip(padded, long, strict=True)
    )
    bootstrap = torch.tensor([0.25, 0.0], dtype=torch.float64)
    advantages, _ = decomposed_gae(
        rewards, values, acted, ends_action, bootstrap, gamma=GAMMA, lam=LAM
    )
    assert advantages[0].tolist() == exactly([1.0 + 0.9 * 0.25 - 0.3, 0.0, 0.0, 0.0, 0.0])
    assert advantages[1].tolist() == exactly([1.192, 0.992, 1.092, 0.6, 0.4])


def test_a_tensor_of_another_shape_is_refused_rather_than_broadcast() -> None:
    rewards, values, acted, ends_action = timeline(TWO_ACTIONS)
    with pytest.raises(ValueError, match="values is"):
        decomposed_gae(
            rewards, values[:, :1], acted, ends_action, torch.zeros(1), gamma=1.0, lam=1.0
        )
    with pytest.raises(ValueError, match="bootstrap is"):
        decomposed_gae(rewards, values, acted, ends_action, torch.zeros(2), gamma=1.0, lam=1.0)


numbers = st.floats(-10.0, 10.0)
factors = st.floats(0.0, 1.0)
random_actions = st.lists(
    st.tuples(st.lists(numbers, min_size=1, max_size=50), numbers), min_size=1, max_size=5
)


@settings(max_examples=60, deadline=None)
@given(random_actions, numbers, factors, factors)
def test_first_token_advantage_is_the_action_level_advantage(
    actions: list[Action], bootstrap: float, gamma: float, lam: float
) -> None:
    advantages, returns = gae(actions, bootstrap, gamma=gamma, lam=lam)
    by_action, targets = gae_of_actions(actions, bootstrap, gamma, lam)
    firsts = [sum(len(values) for values, _ in actions[:index]) for index in range(len(actions))]
    assert [advantages[first] for first in firsts] == pytest.approx(by_action[0].tolist(), abs=1e-7)
    expected = [
        target
        for (values, _), target in zip(actions, targets[0].tolist(), strict=True)
        for _ in values
    ]
    assert returns == pytest.approx(expected, abs=1e-7)


@settings(max_examples=60, deadline=None)
@given(random_actions, numbers, factors, factors, st.integers(2, 5), st.data())
def test_spelling_a_token_as_several_changes_no_advantage_and_no_target(
    actions: list[Action],
    bootstrap: float,
    gamma: float,
    lam: float,
    pieces: int,
    data: st.DataObject,
) -> None:
    which = data.draw(st.integers(0, len(actions) - 1))
    values, reward = actions[which]
    token = data.draw(st.integers(0, len(values) - 1))
    split = values[:token] + [values[token]] * pieces + values[token + 1 :]
    before = gae(actions, bootstrap, gamma=gamma, lam=lam)
    after = gae(
        [*actions[:which], (split, reward), *actions[which + 1 :]], bootstrap, gamma=gamma, lam=lam
    )
    place = sum(len(tokens) for tokens, _ in actions[:which]) + token
    for old, new in zip(before, after, strict=True):
        assert new[: place + 1] + new[place + pieces :] == pytest.approx(old, abs=1e-7)
        assert new[place : place + pieces] == pytest.approx([old[place]] * pieces, abs=1e-7)


@settings(max_examples=50, deadline=None)
@given(random_actions, numbers, st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_unacted_positions_may_hold_nan_anywhere(
    actions: list[Action], bootstrap: float, gaps: list[int]
) -> None:
    rewards, values, _, ends_action = (tensor[0].tolist() for tensor in timeline(actions))
    spaced: list[tuple[float, float, bool, bool]] = []
    for token in zip(rewards, values, [True] * len(values), ends_action, strict=True):
        spaced += [(math.nan, math.nan, False, True)] * gaps[len(spaced) % len(gaps)]
        spaced.append(token)
    kinds = (torch.float64, torch.float64, torch.bool, torch.bool)
    columns = zip(zip(*spaced, strict=True), kinds, strict=True)
    spread, holes, acted, ends = (torch.tensor([column], dtype=kind) for column, kind in columns)
    got, _ = decomposed_gae(
        spread, holes, acted, ends, torch.tensor([bootstrap]), gamma=0.9, lam=0.7
    )
    without, _ = decomposed_gae(*timeline(actions), torch.tensor([bootstrap]), gamma=0.9, lam=0.7)
    assert got[acted].tolist() == pytest.approx(without[0].tolist(), abs=1e-9)


def test_merging_actions_changes_nothing_without_discount_and_reward_between() -> None:
    apart = gae([([0.2, 0.1], 0.0), ([0.7], 1.0)], gamma=1.0, lam=1.0)
    merged = gae([([0.2, 0.1, 0.7], 1.0)], gamma=1.0, lam=1.0)
    assert apart[0] == exactly(merged[0])


def test_a_zero_advantage_is_whitened_like_any_other_and_garbage_outside_the_mask_is_not_seen() -> (
    None
):
    expected = [1.5076, -0.9045, 0.3015, -0.9045]
    assert whiten(torch.tensor([2.0, 0.0, 1.0, 0.0])).tolist() == pytest.approx(expected, abs=1e-4)
    mask = torch.tensor([True, True, False, True, False, True])
    garbage = whiten(torch.tensor([2.0, 0.0, math.nan, 1.0, 1e6, 0.0]), mask)
    assert garbage[mask].tolist() == pytest.approx(expected, abs=1e-4)
    assert garbage[~mask].tolist() == [0.0, 0.0]


def test_credit_that_is_centred_by_its_make_is_scaled_and_gives_silent_tokens_no_push() -> None:
    credit, mask = torch.tensor([3.0, 0.0, 0.0, -1.0, 9.0]), torch.tensor([True] * 4 + [False])
    scaled = whiten(credit, mask, shift=False)
    root = math.sqrt(10 / 4)
    assert scaled.tolist() == pytest.approx([3 / root, 0.0, 0.0, -1 / root, 0.0], abs=1e-4)


def test_equal_advantages_whiten_to_nothing_not_to_amplified_rounding() -> None:
    almost_equal = 0.9 + 1e-8 * torch.randn(1000, generator=torch.Generator().manual_seed(0))
    assert whiten(almost_equal).abs().max() < 0.05


def test_explained_variance_is_a_share_and_absent_for_constant_targets() -> None:
    values = torch.tensor([0.8, 0.2, 0.6, 0.4])
    assert explained_variance(values, torch.tensor([1.0, 0.0, 1.0, 0.0])) == pytest.approx(0.6)
    assert math.isnan(explained_variance(values, torch.ones(4)))
