"""Shrunk baseline of a task's episodes (--group_baseline shrunk), in closed form and by a grid."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from token_worlds import episode, policy_with_values, settings, targets_of, trajectories

from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories
from fctncalling.algorithms.group_baseline import subtract_group_baseline, subtract_shrunk_baseline
from fctncalling.algorithms.ppo import ALGORITHMS

EPISODES = 128
SPREADS, SIZES = (0.0, 0.2, 0.4), (2, 4, 8)
CRITICS = ("zero", "mean", "half", "task", "state", "noise", "too_high")
STATE, LUCK = 0.2, 0.4  # deviations of the state's value and of the return behind it


def shrunk(lines: Trajectories, name: str = "TPPO") -> torch.Tensor:
    """Return the advantages of an algorithm with the shrunk baseline."""
    config = settings(algorithm_name=name, gamma=1.0, lam=1.0)
    return subtract_shrunk_baseline(ALGORITHMS[name].estimate(lines, config), lines).advantages


def test_of_two_groups_each_is_shrunk_by_the_variances_of_the_other() -> None:
    """Each mean square is 4; what chance shows at two standard errors is taken off."""
    rewards = [1.9, 2.1, 1.9, 2.1] * 2
    found = shrunk(trajectories(*([([0.0], each)] for each in rewards), groups=[0] * 4 + [1] * 4))
    within = 0.04 / 3
    between = (4 * 2.0**2 - (1 + 2 * 2**0.5) * within) / 4
    share = between / (between + within / 3)
    others = (8.0 - 1.9) / 3
    assert found[0, 0].item() == pytest.approx(1.9 - share * others, abs=1e-6)


@pytest.mark.parametrize("name", ["TPPO", "APPO"])
def test_an_action_is_compared_with_the_same_action_of_the_others(name: str) -> None:
    """Rewards 1 then 2: returns to go are 3 and 2, exactly as the others'; nothing is left."""
    actions = [([0.0, 0.0], 1.0), ([0.0], 2.0)]
    found = shrunk(trajectories(*[actions] * 6, groups=[0, 0, 0, 1, 1, 1]), name)
    assert torch.allclose(found[:, [0, 2]], torch.zeros(6, 2), atol=1e-6)


def test_a_critic_that_knows_all_is_left_alone() -> None:
    found = shrunk(trajectories(*([([r], r)] for r in (0.0, 1.0, 0.3, 0.6)), groups=[0, 0, 1, 1]))
    assert torch.equal(found, torch.zeros_like(found))


def test_the_baseline_of_an_episode_does_not_move_with_its_own_rewards() -> None:
    """That is what leaves the gradient unbiased: credit moves by what the episode earned more."""
    generator = torch.Generator().manual_seed(0)
    rewards = torch.rand(12, 2, generator=generator)
    groups = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]

    def advantages() -> torch.Tensor:
        paid = rewards.tolist()
        lines = [[([0.4, 0.1], first), ([0.3], second)] for first, second in paid]
        return shrunk(trajectories(*lines, groups=groups))

    before = advantages()
    rewards[4] += torch.tensor([0.5, 0.25])
    after = advantages()
    assert (after[4] - before[4]).tolist() == pytest.approx([0.75, 0.75, 0.25], abs=1e-6)
    assert not torch.equal(after[3], before[3])  # others are compared with it


def test_a_batch_of_one_group_keeps_the_credit_of_the_critic() -> None:
    lines = trajectories([([0.2], 1.0)], [([0.2], 0.0)], groups=[5, 5])
    assert shrunk(lines).flatten().tolist() == pytest.approx([0.8, -0.2])


def world(
    spread: float, size: int, critic: str, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return returns and the critic's values of one batch of one-action episodes, both (E, 1)."""

    def normal(deviation: float, count: int = EPISODES) -> torch.Tensor:
        return deviation * torch.randn(count, 1, generator=generator)

    task = 0.5 + normal(spread, EPISODES // size).repeat_interleave(size, dim=0)
    state = normal(STATE)
    values = {
        "zero": torch.zeros_like(task),
        "mean": torch.full_like(task, 0.5),
        "half": 0.5 + (task - 0.5 + state) / 2,
        "task": task,
        "state": task + state,
        "noise": 0.5 + normal(0.3),
        "too_high": torch.full_like(task, 1.0),
    }
    return task + state + normal(LUCK), values[critic]


@pytest.mark.parametrize(("spread", "size", "critic"), [*product(SPREADS, SIZES, CRITICS)])
def test_its_variance_is_at_most_the_better_single_one_s(
    spread: float, size: int, critic: str
) -> None:
    """Within what measuring 16 to 64 groups costs: 1 % where the critic alone is the best."""
    generator = torch.Generator().manual_seed(1)
    group = torch.arange(EPISODES // size).repeat_interleave(size)
    flat = torch.ones(EPISODES, 1, dtype=torch.bool)
    squares = torch.zeros(4, dtype=torch.float64)
    for _ in range(40):
        returns, values = world(spread, size, critic, generator)
        lines = Trajectories(returns, values, flat, flat, torch.zeros(EPISODES), group)
        alone, with_critic = (
            AdvantageEstimate(each, returns, flat) for each in (returns, returns - values)
        )
        credits = [
            subtract_shrunk_baseline(with_critic, lines),
            with_critic,
            subtract_group_baseline(alone, group),
            subtract_group_baseline(with_critic, group),
        ]
        squares += torch.stack([each.advantages.double().square().mean() for each in credits])
    assert squares[0] <= 1.01 * squares[1:].min()


def test_the_training_targets_have_it() -> None:
    episodes = [episode([(1, reward)], terminated=True) for reward in (1.0, 0.0, 3.0, 3.0)]
    for record, task in zip(episodes, "aabb", strict=True):
        record.task_id = task
    plain, less = (
        targets_of(
            policy_with_values(),
            episodes,
            settings(group_size=2, episodes_per_update=4, gamma=1.0, lam=1.0, group_baseline=on),
        )
        for on in ("none", "shrunk")
    )
    # The second group agrees exactly and so says: between alone, the others' mean is taken whole.
    assert less.raw_advantages[:2].tolist() == pytest.approx([1.0, -1.0], abs=1e-4)
    assert torch.equal(plain.returns, less.returns)
