"""Leave-one-out baseline of a task's episodes (--group_baseline)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from token_worlds import episode, policy_with_values, settings, targets_of, trajectories

from fctncalling.algorithms.config.config_fields import SettingError
from fctncalling.algorithms.group_baseline import subtract_group_baseline
from fctncalling.algorithms.ppo import ALGORITHMS
from fctncalling.cli.idle_flags import idle_flag_notes
from fctncalling.training.run_config import RunConfig

WITH_CRITIC = ("TPPO", "POAD", "NTPO", "APPO")


@pytest.mark.parametrize("name", WITH_CRITIC)
def test_of_three_episodes_each_is_compared_with_the_other_two(name: str) -> None:
    lines = trajectories([([0.0], 1.0)], [([0.0], 0.0)], [([0.0], 0.4)], groups=[3, 3, 3])
    estimate = ALGORITHMS[name].estimate(lines, settings(algorithm_name=name))
    found = subtract_group_baseline(estimate, lines.group)
    assert found.advantages.flatten().tolist() == pytest.approx([0.8, -0.7, -0.1])
    assert torch.equal(found.returns, estimate.returns)  # the critic learns what it did


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1, width=32)), min_size=1, max_size=8),
    st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3),
)
@examples(deadline=None)
def test_what_a_whole_group_earns_more_makes_no_difference(
    episodes: list[tuple[int, float]], bonuses: list[float]
) -> None:
    """... in groups of at least two; an episode alone keeps its advantages."""
    groups = [group for group, _ in episodes]
    config = settings(algorithm_name="TPPO", gamma=1.0, lam=1.0)

    def advantages(extra: list[float]) -> torch.Tensor:
        lines = trajectories(
            *([([0.2, 0.5], reward + extra[group])] for group, reward in episodes), groups=groups
        )
        estimate = ALGORITHMS["TPPO"].estimate(lines, config)
        found = subtract_group_baseline(estimate, lines.group).advantages
        alone = torch.tensor([groups.count(group) == 1 for group in groups])
        assert torch.equal(found[alone], estimate.advantages[alone])
        return found[~alone]

    assert torch.allclose(advantages([0.0] * 3), advantages(bonuses), atol=1e-5)


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
        for on in (False, True)
    )
    assert less.raw_advantages.tolist() == pytest.approx([1.0, -1.0, 0.0, 0.0], abs=1e-5)
    assert torch.equal(plain.returns, less.returns)


def test_without_groups_it_is_refused() -> None:
    with pytest.raises(SettingError, match="--group_baseline: no effect without --group_size"):
        idle_flag_notes(settings(group_baseline=True), RunConfig(), ["group_baseline"])
