"""Plans of multi-turn tasks: proven, varied, alike to the official ones by measures of both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from forge_sample_plans import sample_plans

from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.judging.judge import judge
from fctncalling.forge.multi_turn import CATEGORIES, multi_turn_plan, task_entry
from fctncalling.forge.multi_turn.entries import bare_task, bare_texts
from fctncalling.forge.multi_turn.fidelity import measure
from fctncalling.forge.multi_turn.knowledge import is_refusal
from fctncalling.forge.plan import Plan, PlannedCall

OFFICIAL = Path(os.environ.get("FCTNCALLING_SHARED", "../shared")) / "bfcl/data"
SHORT = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param")


def calls_of(plan: Plan) -> list[PlannedCall]:
    return [call for turn in plan.turns for call in turn.calls]


def verdict(plan: Plan, truth: Sequence[Sequence[str]]) -> bool:
    task = bare_task(plan)
    return judge(task, [[turn] for turn in truth], "decoded_calls").valid


def test_sample_plans_replay_without_an_error() -> None:
    plans = sample_plans(12)
    assert plans == sample_plans(12)
    results = [call.result for plan in plans for call in calls_of(plan)]
    assert results
    assert not any("rror" in text for text in results)


@pytest.mark.parametrize("category", SHORT)
def test_truth_passes_the_judge_and_holds_no_refusal(category: str) -> None:
    for index in range(12):
        plan = multi_turn_plan(category, 3, index)
        assert not any(is_refusal(call.result) for call in calls_of(plan))
        assert verdict(plan, bare_task(plan).ground_truth or [])


def test_without_any_one_call_a_plan_fails() -> None:
    for index in range(6):
        plan = multi_turn_plan("multi_turn_base", 4, index)
        truth: Any = bare_task(plan).ground_truth
        for turn, calls in enumerate(truth):
            for call in range(len(calls)):
                less = [list(each) for each in truth]
                del less[turn][call]
                assert not verdict(plan, less), (plan.seed, turn, call)


def test_a_plan_depends_on_its_arguments_alone() -> None:
    later = multi_turn_plan("multi_turn_base", 5, 3)
    multi_turn_plan("multi_turn_base", 5, 4)
    assert multi_turn_plan("multi_turn_base", 5, 3) == later
    assert multi_turn_plan("multi_turn_base", 5, 3, attempt=1) != later


def test_values_from_results_stand_there() -> None:
    from fctncalling.forge.multi_turn.proof import still_shown

    checked = 0
    for index in range(40):
        plan = multi_turn_plan("multi_turn_base", 6, index)
        shown = {
            (t, c): call.result
            for t, turn in enumerate(plan.turns)
            for c, call in enumerate(turn.calls)
        }
        for call in calls_of(plan):
            for value in call.arguments.values():
                checked += value.provenance == "result"
                assert still_shown(value, shown), (plan.seed, call.function, value)
    assert checked > 10


def test_a_missing_value_is_asked_for_once_and_then_said() -> None:
    for index in range(10):
        plan = multi_turn_plan("multi_turn_miss_param", 7, index)
        texts = bare_texts(plan)
        (turn,) = [t for t, each in enumerate(plan.turns) if each.role == "missing_value"]
        assert plan.turns[turn].blank is not None
        call, name = plan.turns[turn].blank or (0, "")
        value = str(plan.turns[turn].calls[call].arguments[name].value)
        assert value in texts[turn]
        assert value not in texts[turn - 1].split("; ")
        assert plan.turns[turn - 1].calls == ()


def test_a_held_back_function_is_used_from_its_return_on_only() -> None:
    for index in range(10):
        plan = multi_turn_plan("multi_turn_miss_func", 8, index)
        ((turn, (function,)),) = plan.missed_functions.items()
        assert plan.turns[turn].role == "function_returns"
        used = [
            t for t, each in enumerate(plan.turns) for c in each.calls if c.function == function
        ]
        assert min(used) == turn


def test_an_entry_is_read_by_load_tasks(tmp_path: Path) -> None:
    import json

    entries = []
    for category in SHORT:
        plan = multi_turn_plan(category, 9, 0)
        entry = task_entry(plan, bare_texts(plan), f"{category}_0")
        docs = [
            {"name": name, "description": "", "parameters": {"type": "dict", "properties": {}}}
            for name in sorted({call.function for call in calls_of(plan)})
        ]
        entries.append({**entry, "function": docs})
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(entries))
    tasks = load_tasks(path)
    assert [task.category for task in tasks] == list(SHORT)
    assert all(isinstance(task, Task) and task.ground_truth for task in tasks)


def test_categories_are_those_of_the_face() -> None:
    assert set(SHORT) < set(CATEGORIES)
    with pytest.raises(KeyError, match="expected one of"):
        multi_turn_plan("simple_python", 0, 0)


@pytest.mark.skipif(not OFFICIAL.is_dir(), reason="official data is not here")
def test_measures_of_the_official_tasks_are_the_known_ones() -> None:
    figures = measure(load_tasks(OFFICIAL / "BFCL_v4_multi_turn_base.json")).figures()
    assert (figures["tasks"], figures["edges"], figures["pairs"]) == (200, 63, 116)
    assert (figures["functions"], figures["class_combinations"]) == (81, 20)
    assert figures["effects"] == {"later_result": 30.8, "final_state": 51.8, "neither": 45.9}
    assert figures["provenance"]["this_turn"] == pytest.approx(48.2, abs=0.3)
