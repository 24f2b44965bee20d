"""Starts are drawn by their law, and figures of whole episodes do not know of started ones."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, action_facts, episode_metrics
from fctncalling.algorithms.rollout.start_sampler import StartSampler, farthest_place
from fctncalling.algorithms.rollout.task_sampler import CandidateTask, TaskSampler
from fctncalling.algorithms.run.update_log import termination_metrics
from fctncalling.training.counters import Counters
from fctncalling.training.rollouts.round_planner import (
    RoundPlanner,
    evaluation_rounds,
    restore_round,
)

GROUPED: dict[str, Any] = {"starts": "prefix", "group_baseline": "state", "group_size": 4}
PLACES = st.dictionaries(
    st.integers(1, 20),
    st.tuples(st.floats(0.01, 40), st.floats(0, 1)).map(lambda it: [it[0], it[0] * it[1]]),
    max_size=8,
)


def sampler(lengths: list[int], **changes: Any) -> StartSampler:
    return StartSampler(TrainConfig(**{**GROUPED, **changes}), lambda task: lengths[int(task)])


def is_solved(record: list[float]) -> bool:
    return (record[1] + 0.5) / (record[0] + 1) > 0.9


CONFIG = TrainConfig(**GROUPED)


@settings(max_examples=30, deadline=None)
@given(PLACES, st.lists(st.integers(0, 25), min_size=1, max_size=12), st.integers(0, 99))
@example({2: [9.0, 9.0], 3: [9.0, 9.0], 4: [9.0, 5.0], 5: [9.0, 0.0]}, [5, 12] * 12, 7)
def test_starts_lie_around_the_farthest_place_with_half_success_and_a_quarter_is_whole(
    records: dict[int, list[float]], lengths: list[int], update: int
) -> None:
    tasks = [str(number) for number in range(len(lengths))]
    one, other = (StartSampler(CONFIG, lambda task: lengths[int(task)]) for _ in range(2))
    starts = one.draw(tasks, records, update, 0)
    assert starts == other.draw(tasks, records, update, 0)
    assert sum(start == 0 for start in starts) >= len(starts) // 4
    far = farthest_place(records)
    for start, length in zip(starts, lengths, strict=True):
        left = length - start
        assert start == 0 or 2 <= left < length
        if start and records:
            assert far // 2 <= left <= far + far // 2 + 3
            assert not is_solved(records.get(left, [0.0, 0.0]))


def test_a_quarter_is_drawn_as_whole_and_the_first_starts_lie_anywhere() -> None:
    tasks = [str(number) for number in range(400)]
    first = sampler([9] * 400).draw(tasks, {}, 0, 0)
    shares = [first.count(start) / 400 for start in range(8)]
    assert shares[0] == pytest.approx(0.25 + 0.75 / 8, abs=0.04)
    assert shares[1:] == pytest.approx([0.75 / 8] * 7, abs=0.04)
    near = sampler([30] * 400).draw(tasks, {2: [8.0, 4.0]}, 1, 0)
    assert near.count(0) == 100
    assert {30 - start for start in near if start} == {2, 3, 4, 5, 6}
    assert near != sampler([30] * 400).draw(tasks, {2: [8.0, 4.0]}, 1, 1)  # an extra round


@pytest.mark.parametrize(
    ("records", "far"),
    [
        ({}, 0),
        ({1: [1.0, 1.0]}, 0),  # too few to tell
        ({1: [10.0, 9.0], 2: [10.0, 7.0], 3: [10.0, 5.0], 4: [10.0, 3.0]}, 3),
        ({6: [10.0, 7.0], 7: [10.0, 6.0], 12: [20.0, 1.0]}, 7),  # nothing is known of nearer ones
        ({2: [10.0, 1.0], 9: [10.0, 9.0]}, 0),  # a place nearer fails
    ],
)
def test_the_farthest_place_is_the_last_before_less_than_half_succeed(
    records: dict[int, list[float]], far: int
) -> None:
    assert farthest_place(records) == far


def test_records_fade_by_seven_tenths_and_count_valid_episodes_at_their_actions_left() -> None:
    def played(task: str, start: int, *, won: bool, strict: bool | None = None) -> EpisodeRecord:
        return EpisodeRecord(task, "c", [], start=start, success=won, strict_success=strict)

    episodes = [
        played("0", 3, won=True),
        played("0", 3, won=True, strict=False),
        played("0", 0, won=False),
        replace(played("0", 2, won=True), invalid=True),
        played("1", 0, won=True),  # a truth that proves nothing
    ]
    starts = sampler([5, 0])
    found = starts.record_outcomes({2: [10.0, 1.0], 3: [0.01, 0.0]}, episodes)
    assert found == {2: pytest.approx([9.0, 1.7]), 5: [1.0, 0.0]}
    by_left = {"env/success_by_left/2": 0.5, "env/success_by_left/5": 0.0}
    assert starts.metrics(episodes) == by_left


def test_a_group_shares_its_start_and_a_resumed_plan_is_the_uninterrupted_one() -> None:
    config = TrainConfig(**GROUPED, episodes_per_update=64)
    tasks = TaskSampler([CandidateTask(str(number)) for number in range(40)], config)
    planner = RoundPlanner(config, tasks, sampler([12] * 40))
    counters = Counters(updates=3, starts={4: [9.0, 5.0]})
    planned = planner.next_round(counters)
    groups = [planned.starts[at : at + 4] for at in range(0, 64, 4)]
    assert len(groups) == 16
    assert all(len(set(group)) == 1 for group in groups)
    assert len(set(groups)) > 3
    assert planner.next_round(Counters.from_state(asdict(counters))) == planned
    assert planner.next_round(replace(counters, updates=4)).starts != planned.starts
    assert planner.warm_up_round().starts == ()
    assert [each.starts for each in evaluation_rounds(["1"], config, 3)] == [(), ()]
    assert RoundPlanner(config, tasks).next_round(counters).starts == ()
    saved = {"round": [list(planned.task_ids), *planned[1:]], "weights": {}}
    assert restore_round(saved)[0] == planned
    former = {"round": saved["round"][:-1], "weights": {}}  # of a version without starts
    assert restore_round(former)[0] == planned._replace(starts=())


def test_success_rates_returns_and_alarm_signals_are_of_whole_episodes_alone() -> None:
    whole = [
        EpisodeRecord(
            "a", "c", [], success=won, strict_success=won, num_steps=3, episode_return=won
        )
        for won in (True, False, False)
    ]
    begun = [
        EpisodeRecord("a", "c", [], success=True, start=2, truncated=True, errors=["malformed"]),
        EpisodeRecord("a", "c", [], invalid=True, start=2),
    ]
    counts = {"env/episodes": 5, "env/invalid": 1, "env/invalid_rate": 0.2}
    assert episode_metrics([*whole, *begun]) == episode_metrics(whole) | counts
    assert termination_metrics([*whole, *begun]) == termination_metrics(whole)


def test_turns_of_a_started_episode_go_on_from_where_it_began() -> None:
    from fctncalling.algorithms.episodes import TokenRecord

    rows = [TokenRecord([1] * 3, [False, True, True], [False, True, True], [0.0] * 3, [0.0] * 3)]
    says = [[], [{"role": "user", "content": "next"}]]
    begun = EpisodeRecord("a", "c", rows, messages=says, start=4, first_turn=2)
    assert action_facts([begun]).turns == [3, 4]


@pytest.mark.parametrize(
    ("changes", "is_refused"),
    [
        ({"group_baseline": "none"}, True),
        ({"group_size": 1}, True),
        ({"algorithm_name": "GRPO", "group_size": None}, False),
        ({"group_baseline": "leave_one_out"}, False),
        ({"critic": "places", "group_baseline": "none"}, False),
        ({"algorithm_name": "my_module:MINE", "group_baseline": "none"}, False),
    ],
)
def test_starts_without_a_baseline_that_knows_them_are_refused(
    changes: dict[str, Any], is_refused: bool
) -> None:
    if not is_refused:
        sampler([3], **changes)
        return
    with pytest.raises(SettingError, match=r"--starts prefix: TPPO .* --group_baseline") as told:
        sampler([3], **changes)
    assert "\n" not in str(told.value)
