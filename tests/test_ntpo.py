"""The case in which naive token-level PPO goes wrong: what it wants, and what it learns, against
TPPO.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from token_worlds import trajectories

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.ppo import ALGORITHMS

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def world() -> Any:
    """Return benchmarks/ntpo.py, which draws docs/ntpo.png."""
    path = Path(__file__).parents[1] / "benchmarks" / "ntpo.py"
    spec = importlib.util.spec_from_file_location("ntpo", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "worth"), [("TPPO", 1.0), ("POAD", 1.0), ("APPO", 1.0), ("NTPO", 0.729)]
)
def test_to_the_naive_algorithm_alone_the_better_action_is_worth_less(
    world: Any, name: str, worth: float
) -> None:
    actions = [
        [([0.0] * world.LENGTHS[word], world.REWARDS[word])] for word in (world.SHORT, world.LONG)
    ]
    config = TrainConfig(algorithm_name=name, gamma=world.GAMMA, lam=1.0)
    returns = ALGORITHMS[name].estimate(trajectories(*actions), config).returns[:, 0]
    assert returns.tolist() == pytest.approx([0.8, worth])


@pytest.mark.parametrize("name", ["TPPO", "NTPO"])
def test_trained_the_naive_algorithm_takes_the_worse_action_and_exact_backup_the_better(
    world: Any, name: str
) -> None:
    chances = world.train(name, seed=1, num_updates=20)
    assert 0.05 < chances[0] < 0.3  # at the start nothing is decided
    assert (chances[-1] > 0.95) if name == "TPPO" else (chances[-1] < 0.05)
