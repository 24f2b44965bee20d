"""Where numbers end: told by tensor, weight, place and task, and nothing spoilt is saved."""

from __future__ import annotations

import math

import pytest
import torch
from token_worlds import policy_with_values, settings, some_episodes
from torch import Tensor

from fctncalling.algorithms.nan_guard import check_finite, check_weights, first_bad_weight
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import make_optimisers, update

torch.set_num_threads(1)


def named_episodes(policy: ActorCritic) -> list:  # type: ignore[type-arg]
    episodes = some_episodes(policy, 6)
    for number, episode in enumerate(episodes):
        episode.task_id = f"task_{number}"
    return episodes


def weights(policy: ActorCritic) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in policy.parameters()]).clone()


def run_update(policy: ActorCritic, episodes: list, **changes: float) -> None:  # type: ignore[type-arg]
    config = settings(num_mini_batch=2, **changes)
    update(
        policy, make_optimisers(policy, config), episodes, config, torch.Generator().manual_seed(0)
    )


def test_a_reward_that_is_no_number_is_told_with_its_task_alone() -> None:
    policy = policy_with_values()
    episodes, before = named_episodes(policy), weights(policy)
    episodes[3].rows[0].rewards[episodes[3].rows[0].ends_action.index(True)] = math.nan
    with pytest.raises(FloatingPointError, match=r'"rewards" has 1 NaN.* of task task_3\.') as told:
        run_update(policy, episodes)
    assert "before the first step" in str(told.value)
    assert torch.equal(weights(policy), before)


def test_a_weight_that_is_no_number_is_the_first_tensor_named() -> None:
    policy = policy_with_values()
    episodes = named_episodes(policy)
    name, weight = list(policy.named_parameters())[3]
    with torch.no_grad():
        weight.view(-1)[0] = math.inf
    with pytest.raises(FloatingPointError, match=f'"{name}"'):
        run_update(policy, episodes)
    assert first_bad_weight(policy) == f'weight "{name}"'
    with pytest.raises(FloatingPointError, match="nothing was saved"):
        check_weights(policy)


def test_a_step_that_flies_off_is_told_by_its_minibatch() -> None:
    policy = policy_with_values()
    with pytest.raises(FloatingPointError, match="minibatch 2 of 2 of epoch 1"):
        run_update(policy, named_episodes(policy), lr=1e30)


def test_infinities_are_counted_and_numbers_pass() -> None:
    check_finite("fine", torch.zeros(3))
    with pytest.raises(FloatingPointError, match=r'"odd" has 2 NaN or infinite of 3'):
        check_finite("odd", torch.tensor([1.0, -math.inf, math.nan]))
