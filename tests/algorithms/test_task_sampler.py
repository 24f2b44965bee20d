"""Drawing tasks: in the present order by default, else in proportion to weights whose closed forms
are known.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, task_outcomes
from fctncalling.algorithms.rollout.task_sampler import CandidateTask, Successes, TaskSampler

CANDIDATES = [
    *(CandidateTask(f"simple_{i}", "simple", 1) for i in range(30)),
    *(CandidateTask(f"pair_{i}", "pair", 2) for i in range(10)),
    *(CandidateTask(f"long_{i}", "long", 4) for i in range(20)),
]
CATEGORY = {candidate.id: candidate.category for candidate in CANDIDATES}


def drawn(
    count: int,
    rounds: int = 1,
    *,
    update: int = 0,
    successes: Successes | None = None,
    **flags: Any,
) -> Counter[str]:
    sampler = TaskSampler(CANDIDATES, TrainConfig(**flags))
    return Counter(
        task
        for number in range(rounds)
        for task in sampler.draw(
            count, position=number * count, update=update, successes=successes or {}
        )
    )


def by_category(tasks: Counter[str]) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for task, count in tasks.items():
        totals[CATEGORY[task]] += count
    return dict(totals)


@pytest.mark.parametrize("position", [0, 55, 60, 119, 500])
def test_by_default_each_task_comes_once_before_any_comes_again(position: int) -> None:
    orders = [np.random.default_rng([7, 3, epoch]).permutation(60) for epoch in range(12)]
    wanted = [
        CANDIDATES[orders[place // 60][place % 60]].id for place in range(position, position + 70)
    ]
    sampler = TaskSampler(CANDIDATES, TrainConfig(seed=7))
    assert (
        sampler.draw(70, position=position, update=9, successes={"simple_0": [9.0, 9.0]}) == wanted
    )


def test_a_mixture_gives_each_category_its_share_of_every_round_and_evenly_within() -> None:
    for seed in range(5):
        assert by_category(drawn(64, mixture="simple=1,long=3", seed=seed)) == {
            "simple": 16,
            "long": 48,
        }
    tasks = drawn(64, 500, mixture="simple=1,long=3")
    assert set(tasks) == {task for task, category in CATEGORY.items() if category != "pair"}
    for task, count in tasks.items():
        expected = 500 * (16 / 30 if CATEGORY[task] == "simple" else 48 / 20)
        assert count == pytest.approx(expected, rel=0.15)


def test_shares_that_do_not_divide_a_round_are_right_to_within_one() -> None:
    for number in range(40):
        shares = by_category(drawn(10, seed=number, mixture="simple=1,pair=1,long=1"))
        assert set(shares.values()) <= {3, 4}


def test_stages_follow_each_other_and_then_all_tasks_come() -> None:
    flags = {"curriculum": "simple+long:2,2:3"}
    seen = [set(by_category(drawn(60, update=update, **flags))) for update in range(7)]
    assert (
        seen
        == [{"simple", "long"}] * 2 + [{"simple", "pair"}] * 3 + [{"simple", "pair", "long"}] * 2
    )


def test_a_stage_keeps_what_the_mixture_says_among_its_categories() -> None:
    flags = {"curriculum": "simple+pair:1", "mixture": "simple=1,pair=2,long=9"}
    assert by_category(drawn(30, update=0, **flags)) == {"simple": 10, "pair": 20}
    assert by_category(drawn(36, update=1, **flags)) == {"simple": 3, "pair": 6, "long": 27}


def test_by_success_a_task_comes_the_likelier_the_closer_it_is_to_one_half() -> None:
    known = {
        task: [1e9, 1e9 * chance]
        for task, chance in (("long_0", 0.5), ("long_1", 0.9), ("long_2", 1.0))
    }
    rest = {task: [1e9, 0.0] for task in CATEGORY if task not in known}
    tasks = drawn(100, 400, successes={**known, **rest}, task_sampling="success")
    least = np.mean([tasks[task] for task in rest])
    assert tasks["long_2"] / least == pytest.approx(
        1.0, rel=0.1
    )  # never and always are alike: the least weight
    assert tasks["long_0"] / least == pytest.approx(1.0 / 0.05, rel=0.1)
    assert tasks["long_1"] / least == pytest.approx(4 * 0.9 * 0.1 / 0.05, rel=0.1)


def test_success_is_what_the_reward_pays_for() -> None:
    """A task that is solved with something forgiven earns nothing under a strict reward."""
    verdicts = [("a", True, False), ("b", True, True), ("c", True, None), ("d", False, None)]
    records = [
        EpisodeRecord(task, "simple", [], success=success, strict_success=strict)
        for task, success, strict in verdicts
    ]
    records.append(EpisodeRecord("e", "simple", [], invalid=True))
    for strict, solved in ((True, "bc"), (False, "abc")):
        assert task_outcomes(records, strict=strict) == [(it, it in solved) for it in "abcd"]


def test_a_task_that_was_never_played_is_taken_for_its_category() -> None:
    successes = {f"simple_{i}": [10.0, 10.0] for i in range(29)} | {
        f"long_{i}": [10.0, 5.0] for i in range(19)
    }
    tasks = drawn(100, 400, successes=successes, task_sampling="success")
    assert tasks["simple_29"] / tasks["long_19"] == pytest.approx(0.05, rel=0.25)
    assert tasks["pair_0"] / tasks["long_19"] == pytest.approx(
        1.0, rel=0.1
    )  # nothing is known of pairs


def test_records_fade_and_are_forgotten_and_success_alone_keeps_them() -> None:
    sampler = TaskSampler(CANDIDATES, TrainConfig(task_sampling="success"))
    first = sampler.record_outcomes({}, [("long_0", True), ("long_0", False), ("pair_1", False)])
    assert first == {"long_0": [2.0, 1.0], "pair_1": [1.0, 0.0]}
    second = sampler.record_outcomes(first, [("long_0", True)])
    assert second == {"long_0": pytest.approx([2.8, 1.9]), "pair_1": pytest.approx([0.9, 0.0])}
    for _ in range(60):
        second = sampler.record_outcomes(second, [])
    assert second == {}
    assert TaskSampler(CANDIDATES, TrainConfig()).record_outcomes({}, [("long_0", True)]) == {}


def test_the_same_place_in_the_same_run_draws_the_same() -> None:
    flags = {"task_sampling": "success", "mixture": "simple=1,long=1"}
    one, same = (TaskSampler(CANDIDATES, TrainConfig(seed=3, **flags)) for _ in range(2))
    other = TaskSampler(CANDIDATES, TrainConfig(seed=4, **flags))
    place: dict[str, Any] = {"position": 128, "update": 2, "successes": {"long_0": [3.0, 1.0]}}
    assert one.draw(64, **place) == same.draw(64, **place) != other.draw(64, **place)
    assert one.draw(64, **place) != one.draw(64, **{**place, "position": 192})


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"mixture": "simple"}, '--mixture: got "simple" in "simple", expected CATEGORY=WEIGHT'),
        ({"mixture": "simple=0"}, 'got "simple=0"'),
        ({"mixture": "simple=1,simple=2"}, "each category once"),
        ({"mixture": "simple=nan"}, "its weight above 0"),
        (
            {"mixture": "simpel=1"},
            'got "simpel", of which there is no task; is simple meant? Known: long, pair, simple',
        ),
        (
            {"curriculum": "simple"},
            '--curriculum: got "simple" in "simple", expected WHICH:UPDATES',
        ),
        ({"curriculum": "simple:0"}, 'got "simple:0"'),
        ({"curriculum": "simple+:3"}, 'got "simple+:3"'),
        (
            {"curriculum": "simple:1,hard:2"},
            '--curriculum: got "hard", of which there is no task; known: long',
        ),
        (
            {"curriculum": "simple:1", "mixture": "long=1"},
            'stage "simple" admits no task that --mixture long=1 leaves',
        ),
    ],
)
def test_a_flag_that_does_not_fit_is_told_with_what_is_known(
    flags: dict[str, str], told: str
) -> None:
    with pytest.raises(SettingError) as error:
        TaskSampler(CANDIDATES, TrainConfig(**flags))
    assert told in str(error.value)


def test_tasks_without_categories_say_so() -> None:
    with pytest.raises(SettingError, match="these tasks have no categories"):
        TaskSampler([CandidateTask("train_0")], TrainConfig(mixture="simple=1"))


def test_the_stage_of_an_update_has_a_number_and_a_name() -> None:
    sampler = TaskSampler(
        [CandidateTask("a", "simple_python"), CandidateTask("b", "multiple", 2)],
        TrainConfig(curriculum="simple_python:2,2:1"),
    )
    assert [sampler.curriculum_stage(update) for update in range(5)] == [
        *[(1, "simple_python")] * 2,
        (2, "2"),
        *[(3, "all tasks")] * 2,
    ]
    assert TaskSampler([CandidateTask("a")], TrainConfig()).curriculum_stage(0) is None


GRADED = [CandidateTask(f"task_{i}", "simple", 1, i / 40) for i in range(40)]


def test_a_stage_of_a_curriculum_admits_tasks_up_to_a_difficulty() -> None:
    sampler = TaskSampler(GRADED, TrainConfig(curriculum="0.25:2"))
    easy = {each.id for each in GRADED if each.difficulty is not None and each.difficulty <= 0.25}
    assert set(sampler.draw(200, position=0, update=1, successes={})) == easy
    assert len(set(sampler.draw(400, position=0, update=2, successes={}))) == 40
    with pytest.raises(SettingError, match=r'stage "0\.25" admits no task'):
        TaskSampler([CandidateTask("a"), CandidateTask("b")], TrainConfig(curriculum="0.25:2"))


def test_a_task_not_played_yet_is_expected_to_succeed_like_those_of_its_difficulty() -> None:
    # Every easy task but one always succeeds, half of the hard ones do: the untouched easy task is
    # drawn less than the untouched hard one, whose outcome is open.
    easy = [CandidateTask(f"easy_{i}", "simple", 1, 0.05) for i in range(20)]
    hard = [CandidateTask(f"hard_{i}", "simple", 1, 0.85) for i in range(20)]
    successes: Successes = {each.id: [8.0, 8.0] for each in easy[1:]}
    successes |= {each.id: [8.0, 4.0] for each in hard[1:]}
    sampler = TaskSampler([*easy, *hard], TrainConfig(task_sampling="success"))
    counts = Counter(sampler.draw(4000, position=0, update=0, successes=successes))
    plain = [CandidateTask(each.id, each.category) for each in (*easy, *hard)]
    without = Counter(
        TaskSampler(plain, TrainConfig(task_sampling="success")).draw(
            4000, position=0, update=0, successes=successes
        )
    )
    assert counts["hard_0"] > 2 * counts["easy_0"]
    assert without["hard_0"] == pytest.approx(without["easy_0"], abs=2)
