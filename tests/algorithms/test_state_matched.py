"""State-matched credit (--group_baseline state), by hand and by enumeration."""

from __future__ import annotations

import pytest
import torch
from token_worlds import episode, policy_with_values, settings, targets_of

from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.group_baseline import state_matched_estimate

DISCOUNT = 0.9


def credit(
    hashes: list[list[str]],
    rewards: list[list[float]],
    values: float = 0.0,
    bootstrap: tuple[float, ...] = (),
) -> list[list[float]]:
    """Return the advantages of episodes of one group whose actions are two tokens each."""
    longest = 2 * max(map(len, rewards))
    shape = (len(rewards), longest)
    acted = torch.zeros(shape, dtype=torch.bool)
    ends = torch.zeros(shape, dtype=torch.bool)
    paid = torch.zeros(shape)
    for row, own in enumerate(rewards):
        acted[row, : 2 * len(own)] = True
        ends[row, 1 : 2 * len(own) : 2] = True
        paid[row, 1 : 2 * len(own) : 2] = torch.tensor(own)
    trajectories = Trajectories(
        rewards=paid,
        values=torch.full(shape, values),
        acted=acted,
        ends_action=ends,
        bootstrap=torch.tensor(bootstrap or [0.0] * len(rewards)),
        group=torch.zeros(len(rewards), dtype=torch.int64),
    )
    blank = torch.full(shape, 7.0)
    estimate = AdvantageEstimate(blank, blank, loss_mask=acted)
    found = state_matched_estimate(estimate, trajectories, hashes, DISCOUNT)
    assert torch.equal(found.returns, blank)
    assert torch.equal(found.advantages[:, ::2], found.advantages[:, 1::2])
    return [found.advantages[row, : 2 * len(own) : 2].tolist() for row, own in enumerate(rewards)]


def test_an_action_is_worth_what_others_got_behind_it_less_what_they_got_before_it() -> None:
    hashes = [["s", "good"], ["s", "bad"], ["s", "good"], ["s", "bad"]]
    rewards = [[0.0, 1.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    found = credit(hashes, rewards)
    third = DISCOUNT / 3  # the mean return of one winner among three others
    assert found[0] == pytest.approx([DISCOUNT - third, 1 - 1])
    assert found[1] == pytest.approx([0 - 2 * third, 0])


def test_luck_behind_a_shared_state_does_not_move_the_credit_of_what_led_there() -> None:
    hashes = [["s", "t"], ["s", "t"], ["s", "t"]]
    lucky, unlucky = credit(hashes, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.5]])[:2]
    # V(s') less V(s) of the same others: 0 but for the discount, whoever was lucky.
    assert abs(lucky[0]) < 0.03
    assert abs(unlucky[0]) < 0.08
    assert lucky[1] == pytest.approx(1 - 0.25)
    assert unlucky[1] == pytest.approx(0 - 0.75)


def test_where_nobody_else_came_the_critic_and_the_own_return_speak() -> None:
    found = credit([["s", "alone"], ["s", "t"]], [[0.0, 1.0], [0.0, 0.0]], values=0.3)
    assert found[0] == pytest.approx([DISCOUNT * 1.0 - 0.0, 1.0 - 0.3])


def test_a_cut_episode_goes_on_with_the_value_behind_it() -> None:
    found = credit([["s", "t"], ["s"]], [[0.0, 0.0], [1.0]], values=0.3, bootstrap=(0.5, 0.0))
    assert found[0] == pytest.approx([DISCOUNT**2 * 0.5 - 1.0, DISCOUNT * 0.5 - 0.3])
    assert found[1] == pytest.approx([1.0 - DISCOUNT**2 * 0.5])


def test_repeated_states_of_one_episode_are_one_voice() -> None:
    hashes = [["s", "s", "s"], ["s"], ["s"]]
    found = credit(hashes, [[0.0, 0.0, 1.0], [0.0], [1.0]])
    mean = (1 + DISCOUNT + DISCOUNT**2) / 3
    assert found[1] == pytest.approx([0 - (mean + 1) / 2])


def test_episodes_without_hashes_keep_their_estimate() -> None:
    assert credit([[], []], [[1.0], [0.0]]) == [[7.0], [7.0]]


def test_the_expected_credit_is_the_true_advantage_of_a_small_world() -> None:
    """Two actions, then a coin of the state's own chance: averaged over draws it is exact."""
    chance = {"left": 0.2, "right": 0.7}
    generator = torch.Generator().manual_seed(3)
    sums = {"left": 0.0, "right": 0.0}
    counts = {"left": 0, "right": 0}
    for _ in range(800):
        sides = ["left", "right", "left", "right", "left", "right"]
        wins = [float(torch.rand((), generator=generator) < chance[side]) for side in sides]
        found = credit([["s", side] for side in sides], [[0.0, win] for win in wins])
        for side, advantages in zip(sides, found, strict=True):
            sums[side] += advantages[0]
            counts[side] += 1
    # V(s) of an episode is that of its five others: two of its own side and three of the other.
    for side, other in (("left", "right"), ("right", "left")):
        expected = DISCOUNT * (chance[side] - (2 * chance[side] + 3 * chance[other]) / 5)
        assert sums[side] / counts[side] == pytest.approx(expected, abs=0.02)


def test_the_training_targets_have_it() -> None:
    episodes = [episode([(1, reward)], terminated=True) for reward in (1.0, 0.0, 3.0, 3.0)]
    for record, task in zip(episodes, "aabb", strict=True):
        record.task_id = task
        record.state_hashes = ["start"]
    config = settings(
        group_size=2, episodes_per_update=4, gamma=1.0, lam=1.0, group_baseline="state"
    )
    found = targets_of(policy_with_values(), episodes, config).raw_advantages
    assert found.tolist() == pytest.approx([1.0, -1.0, 0.0, 0.0], abs=1e-5)


@pytest.mark.parametrize(("word", "meant"), [(True, "leave_one_out"), (False, "none")])
def test_former_words_go_on(word: bool, meant: str) -> None:
    config = TrainConfig(group_size=8, group_baseline=word)  # type: ignore[arg-type]
    assert config.group_baseline == meant
