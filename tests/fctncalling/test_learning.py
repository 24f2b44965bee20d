"""Learning: the shared update with every algorithm solves worlds whose optimum is known, on CPU in
seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
import torch
from gymnasium.wrappers import TimeLimit
from token_worlds import ConstantDigit, Corridor, Microwave, ShownDigit, Tokens, play, tiny_policy

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.minibatches import make_batch
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import ALGORITHMS, make_optimisers, update

torch.set_num_threads(1)

# On actions of one token algorithms with a critic are one: test_algorithms.py.
of_one_token = pytest.mark.parametrize(
    "name",
    [
        name if name in ("TPPO", "GRPO") else pytest.param(name, marks=pytest.mark.prove)
        for name in ALGORITHMS
    ],
)
World = Callable[[], gymnasium.Env[Tokens, Tokens]]


def train(world: World, num_updates: int, **settings: Any) -> tuple[ActorCritic, list[float]]:
    """Return the trained policy and the mean return of the episodes of each update."""
    config = TrainConfig(
        **{
            "lr": 3e-3,
            "critic_lr": 1e-2,
            "num_mini_batch": 2,
            "ppo_epoch": 2,
            "target_kl": None,
            **settings,
        }
    )
    policy = tiny_policy(config.seed)
    optimisers = make_optimisers(policy, config)
    generator = torch.Generator().manual_seed(config.seed)
    curve = []
    for _ in range(num_updates):
        episodes = play(policy, world, 64, generator)
        for record in episodes:  # worlds of one beginning are one task
            record.task_id = str(record.rows[0].ids[: record.rows[0].acted.index(True)])
        curve.append(mean_return(episodes))
        update(policy, optimisers, episodes, config, generator)
    return policy, curve


def mean_return(episodes: list[EpisodeRecord]) -> float:
    return sum(episode.episode_return for episode in episodes) / len(episodes)


def corridor() -> gymnasium.Env[Tokens, Tokens]:
    return TimeLimit(Corridor(), max_episode_steps=12)


@of_one_token
def test_a_constant_target_is_found(name: str) -> None:
    _, curve = train(ConstantDigit, 15, algorithm_name=name)
    assert curve[0] < 0.4
    assert curve[-1] > 0.95


@of_one_token
def test_an_action_can_depend_on_the_observation(name: str) -> None:
    _, curve = train(ShownDigit, 30, algorithm_name=name)
    assert curve[0] < 0.4
    assert curve[-1] > 0.95


@pytest.mark.parametrize(
    "name",
    [
        name if name == "TPPO" else pytest.param(name, marks=pytest.mark.prove)
        for name in ALGORITHMS
    ],
)
def test_a_step_cost_teaches_the_shortest_way(name: str) -> None:
    _, curve = train(corridor, 25, algorithm_name=name)
    assert curve[0] < 0.3
    # Three steps, the last of which earns 1: 0.7. Five updates, for one alone can hold a few stray
    # long episodes.
    assert sum(curve[-5:]) / 5 > 0.65


def test_microwave_is_solved_and_its_first_observation_valued_at_gamma_squared() -> None:
    policy, curve = train(Microwave, 40, gamma=0.95, lam=0.95)
    assert curve[0] < -0.5
    assert curve[-1] > 0.95
    start = make_batch(play(policy, Microwave, 1, torch.Generator().manual_seed(0))[0].rows)
    with torch.no_grad():
        value = policy.values_at(start, torch.tensor([1]))
    assert value.item() == pytest.approx(0.95**2, abs=0.1)


def test_shuffled_advantages_teach_nothing() -> None:
    _, curve = train(ShownDigit, 30, permute_advantages=True)
    assert curve[-1] < 0.6
