"""Scaled rewards, penalties on long actions, and cut actions that teach nothing: by hand-computed
numbers.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch
from token_worlds import episode, gradient, settings, some_episodes, targets_of, tiny_policy

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.learning_signal import (
    learnable_episodes,
    overlong_penalty,
    shape_rewards,
)
from fctncalling.algorithms.ppo import make_optimisers, update

torch.set_num_threads(1)


def cut(record: EpisodeRecord, *numbers: int) -> EpisodeRecord:
    return dataclasses.replace(record, cut_actions=list(numbers))


def rewards(record: EpisodeRecord) -> list[float]:
    return [
        reward
        for row in record.rows
        for reward, ends in zip(row.rewards, row.ends_action, strict=True)
        if ends
    ]


@pytest.mark.parametrize(
    ("length", "was_cut", "expected"),
    [(60, False, 0.0), (65, False, 0.125), (79, False, 0.475), (80, True, 0.5), (7, True, 0.5)],
)
def test_the_penalty_rises_over_the_buffer_and_is_whole_where_the_action_was_cut(
    length: int, was_cut: bool, expected: float
) -> None:
    config = settings(
        overlong="penalty", overlong_penalty=0.5, overlong_buffer=20, max_new_tokens=80
    )
    assert overlong_penalty(length, cut=was_cut, config=config) == pytest.approx(expected)


def test_rewards_and_penalties_are_scaled_and_the_cut_action_pays_where_it_ends() -> None:
    record = cut(episode([(3, 1.0), (2, 0.0), (4, 0.5)], terminated=True), 1)
    config = settings(overlong="penalty", overlong_penalty=0.25, reward_scale=2.0)
    assert rewards(shape_rewards([record], config)[0]) == [2.0, -0.5, 1.0]
    assert rewards(record) == [1.0, 0.0, 0.5]  # the episode log's are untouched
    assert shape_rewards([record], settings())[0] is record


def test_a_masked_action_has_no_part_in_the_gradient_and_others_keep_theirs() -> None:
    policy = tiny_policy().eval()
    plain = settings(whiten_advantages=False, entropy_coef=0.1, lam=0.0, gamma=0.0)
    record = episode([(3, 1.0), (2, -0.5)], terminated=True)
    without = episode([(3, 1.0)], terminated=True)
    masked = gradient(policy, [cut(record, 1)], dataclasses.replace(plain, overlong="mask"))
    assert torch.allclose(masked, gradient(policy, [without], plain), atol=1e-6)
    assert not torch.allclose(masked, gradient(policy, [record], plain), atol=1e-3)


def test_what_a_cut_action_earned_still_counts_for_those_before_it() -> None:
    policy = tiny_policy().eval()
    config = settings(overlong="mask", whiten_advantages=False, lam=1.0, gamma=0.5)
    targets = targets_of(policy, [cut(episode([(1, 0.0), (1, 1.0)], terminated=True), 1)], config)
    assert targets.loss_mask.tolist() == [True, False]
    assert targets.returns[0] == 0.5


def test_an_update_takes_episodes_that_were_cut_whole_beside_others() -> None:
    policy = tiny_policy()
    config = settings(overlong="mask", num_mini_batch=4, target_kl=None)
    episodes = some_episodes(policy, 4)
    episodes[1:] = [cut(each, *range(9)) for each in episodes[1:]]
    metrics = update(
        policy, make_optimisers(policy, config), episodes, config, torch.Generator().manual_seed(0)
    )
    assert metrics["losses/optimiser_steps"] == 1  # the minibatches of cut episodes take none
    assert learnable_episodes(episodes[1:], config) == []
    assert learnable_episodes(episodes[1:], settings()) == episodes[1:]
