"""Plans of multi-turn tasks: proven, varied, alike to the official ones by measures of both."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.judging.judge import judge
from fctncalling.lab.forge.measures import call_dependencies, count_multi_turn, measure_multi_turn
from fctncalling.lab.forge.multi_turn import HISTORY_DIALS, multi_turn_plan
from fctncalling.lab.forge.multi_turn.dials import CRITICAL_DIALS, FUNCTIONS
from fctncalling.lab.forge.multi_turn.drafter import leaves_with_paths, pattern
from fctncalling.lab.forge.multi_turn.inventory import REFERENCE_KINDS, nameable_values
from fctncalling.lab.forge.multi_turn.proof import (
    is_failed_result,
    is_still_shown,
    prove,
    undetected_wrong_calls,
)
from fctncalling.lab.forge.multi_turn_entry import multi_turn_entry
from fctncalling.lab.forge.plan import (
    Plan,
    PlannedCall,
    PlannedTurn,
    PlanSession,
    Value,
    call_text,
    difficulty,
    parse_result,
    plain_call,
    task_entry,
)

OFFICIAL = Path(os.environ.get("FCTNCALLING_SHARED", "../shared")) / "bfcl/data"
SUM = {name: Value("number", value, "said_now", said=value) for name, value in (("a", 2), ("b", 3))}
SHORT = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param")


def bare_texts(plan: Plan) -> list[str]:
    """Return what each turn must say and nothing else: the values, for measures without words."""
    texts = []
    for index, is_second in plan.messages:
        turn, said = plan.turns[index], list[str]()
        for number, call in enumerate(turn.calls):
            for name, value in call.arguments.items():
                if turn.blank and is_second != ((number, name) == turn.blank):
                    continue
                if value.words is not None:
                    said.append(str(value.words))
                elif value.provenance == "flag" and value.kind in ("ignition_mode", "brake_mode"):
                    said.append(value.value)
        texts.append("; ".join(said) or "-")
    return texts


def bare_task(plan: Plan) -> Task:
    """Return a plan as a task whose texts are bare values, without function docs."""
    entry = task_entry(plan, bare_texts(plan), plan.seed)
    return Task(
        entry["id"],
        f"multi_turn_{plan.variant}",
        entry["question"],
        ground_truth=entry["ground_truth"],
        initial_config=entry["initial_config"],
        involved_classes=entry["involved_classes"],
        missed_functions={int(k): v for k, v in entry.get("missed_function", {}).items()},
    )


def calls_of(plan: Plan) -> list[PlannedCall]:
    return [call for turn in plan.turns for call in turn.calls]


def verdict(plan: Plan, truth: Sequence[Sequence[str]]) -> bool:
    task = bare_task(plan)
    return judge(task, [[turn] for turn in truth], "decoded_calls").valid


@pytest.mark.parametrize("category", SHORT)
def test_truth_passes_the_judge_and_holds_no_refusal(category: str) -> None:
    for index in range(12):
        plan = multi_turn_plan(category, 3, index)
        assert not any(is_failed_result(call.result) for call in calls_of(plan))
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
                assert is_still_shown(value, shown), (plan.seed, call.function, value)
    assert checked > 10


def unit_faults(plan: Plan) -> list[str]:
    """Results that a plan takes for what they are not."""
    made = {(t, c): call for t, turn in enumerate(plan.turns) for c, call in enumerate(turn.calls)}
    faults = []
    for call in calls_of(plan):
        for name, value in call.arguments.items():
            if value.provenance != "result":
                continue
            origin = made[value.source.turn, value.source.call]
            given = {key: each.value for key, each in origin.arguments.items()}
            if name == "numbers" and origin.function == "get_stock_info":
                faults.append(f"{call.function} of a price and its averages")
            if name == "distance" and origin.function == "estimate_distance":
                faults.append("kilometers taken for miles")
            units = {"estimate_distance": "km"}.get(origin.function, given.get("unit_out"))
            if call.function in CONVERSIONS and call.arguments["unit_in"].value != units:
                faults.append(
                    f"a result of {origin.function} in {units} converted from another unit"
                )
            if name == "budget_limit" and given.get("target_currency") != "USD":
                faults.append("a budget in dollars of another currency")
            base = call.arguments.get("base_currency")
            if name == "value" and base is not None and base.value != "USD":
                faults.append("a price in dollars exchanged from another currency")
    return faults


CONVERSIONS = ("si_unit_conversion", "imperial_si_conversion")


def test_no_result_is_taken_for_a_figure_of_another_kind_or_unit() -> None:
    plans = [multi_turn_plan("multi_turn_base", 77, index) for index in range(200)]
    assert {plan.seed: faults for plan in plans if (faults := unit_faults(plan))} == {}
    used = [call.function for plan in plans for call in calls_of(plan)]
    assert {"mean", "set_budget_limit", "compute_exchange_rate"} <= set(used)
    assert not set(CONVERSIONS).isdisjoint(used)


def test_a_missing_value_is_asked_for_once_and_then_said() -> None:
    for index in range(10):
        plan = multi_turn_plan("multi_turn_miss_param", 7, index)
        texts = bare_texts(plan)
        ((place, turn),) = [(t, each) for t, each in enumerate(plan.turns) if each.blank]
        call, name = turn.blank or (0, "")
        value = str(turn.calls[call].arguments[name].value)
        assert value in texts[place + 1]
        assert value not in texts[place].split("; ")
        truth = bare_task(plan).ground_truth or ()
        assert (truth[place], len(truth[place + 1])) == ([], len(turn.calls))


def test_a_held_back_function_is_used_from_its_return_on_only() -> None:
    for index in range(10):
        plan = multi_turn_plan("multi_turn_miss_func", 8, index)
        task = bare_task(plan)
        ((turn, (function,)),) = task.missed_functions.items()
        assert task.question[turn] == []
        calls = enumerate(task.ground_truth or ())
        used = [t for t, made in calls if any(each.startswith(f"{function}(") for each in made)]
        assert min(used) == turn


def test_an_entry_is_read_by_load_tasks(tmp_path: Path) -> None:
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


@pytest.mark.skipif(not OFFICIAL.is_dir(), reason="official data is not here")
def test_measures_of_the_official_tasks_are_the_known_ones() -> None:
    tasks = load_tasks(OFFICIAL / "BFCL_v4_multi_turn_base.json")
    figures = measure_multi_turn(count_multi_turn(tasks))
    assert (figures["tasks"], figures["edges"], figures["pairs"]) == (200, 63, 116)
    assert (figures["functions"], figures["class_combinations"]) == (81, 20)
    assert figures["effects"] == {"later_result": 30.8, "final_state": 51.8, "neither": 45.9}
    assert figures["provenance"]["this_turn"] == pytest.approx(48.2, abs=0.3)


def test_proof_refuses_a_call_whose_result_was_seen_before() -> None:
    add = PlannedCall("MathAPI", "add", SUM, result='{"result": 5}')
    subtract = PlannedCall("MathAPI", "subtract", SUM, result='{"result": -1}')
    turns = (PlannedTurn((add,)), PlannedTurn((subtract, add)))
    plan = Plan({"MathAPI": {}}, ("MathAPI",), turns)
    assert prove(plan).fault == "the plan passes without call (1, 1)"
    assert not prove(replace(plan, turns=(turns[0], PlannedTurn((subtract,))))).fault


def said(kind: str, value: Any) -> Value:
    return Value(kind, value, "said_now", said=value, said_kind=kind)


def file_plan(*calls: tuple[str, dict[str, Value]]) -> Plan:
    """Return a plan of one turn in a folder of one note, its results as the tools give them."""
    contents = {
        "note.txt": {"type": "file", "content": "Rent is due."},
        "old": {"type": "directory", "contents": {}},
    }
    config = {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": contents}}}}
    session = ToolSession(["GorillaFileSystem"], config)
    made = []
    for function, arguments in calls:
        call = PlannedCall("GorillaFileSystem", function, arguments)
        made.append(replace(call, result=session.execute(plain_call(call))))
    return Plan(config, ("GorillaFileSystem",), (PlannedTurn(tuple(made)),))


REMOVE = ("rm", {"file_name": said("file_name", "note.txt")})
REMOVE_FOLDER = ("rmdir", {"dir_name": said("folder", "old")})


def test_the_judge_takes_another_way_to_the_same_end() -> None:
    plan = file_plan(REMOVE_FOLDER, REMOVE)
    assert not prove(plan).fault
    assert verdict(plan, [["rm(file_name='old')", "rm(file_name='note.txt')"]])
    assert not verdict(plan, [["rm(file_name='old')"]])


def test_proof_refuses_a_step_that_nobody_asked_for_and_nothing_needs() -> None:
    plan = file_plan(("cat", {"file_name": said("file_name", "note.txt")}), REMOVE)
    calls = (replace(plan.turns[0].calls[0], purpose="needed_step"), plan.turns[0].calls[1])
    assert not prove(plan).fault
    fault = prove(replace(plan, turns=(PlannedTurn(calls),))).fault
    assert fault == "nothing needs the steps [(0, 0)]"


def test_proof_refuses_a_result_that_is_not_the_tools() -> None:
    turn = PlannedTurn((PlannedCall("MathAPI", "add", SUM, result='{"result": 6.0}'),))
    assert "replays to" in prove(Plan({"MathAPI": {}}, ("MathAPI",), (turn,))).fault


def test_dependencies_of_a_plan_are_those_of_its_task() -> None:
    for index in range(5):
        plan = multi_turn_plan("multi_turn_base", 11, index)
        places = [(t, c) for t, turn in enumerate(plan.turns) for c in range(len(turn.calls))]
        edges = {
            (place, later)
            for place, changed in zip(places, call_dependencies(bare_task(plan)).later, strict=True)
            for later in (places[number] for number in changed)
        }
        planned = {
            (place, (t, c))
            for t, turn in enumerate(plan.turns)
            for c, call in enumerate(turn.calls)
            for place in call.depends_on
        }
        assert edges == planned


def test_history_dials_make_plans_that_the_newest_message_cannot_tell() -> None:
    for index in range(4):
        plan = multi_turn_plan("multi_turn_base", 12, index, dials=HISTORY_DIALS)
        values = [v for call in calls_of(plan) for v in call.arguments.values()]
        assert sum(v.provenance in ("said_before", "result") for v in values) >= 3
        assert difficulty(plan) > 0.1


def test_critical_dials_make_plans_whose_traps_the_judge_alone_betrays() -> None:
    """Oracle: the judge of the environment, on the truth with the one call in its place."""
    for index in range(3):
        entry = multi_turn_entry("multi_turn_base", 12, index, dials=CRITICAL_DIALS)
        measured = entry.provenance["criticality"]
        assert 6 <= measured["actions"] <= 16
        assert measured["share"] >= 0.3
        plan = multi_turn_plan("multi_turn_base", 12, index, dials=CRITICAL_DIALS)
        task = bare_task(plan)
        for trap in undetected_wrong_calls(plan):
            calls: list[Any] = [list(turn) for turn in task.ground_truth or ()]
            assert judge(task, calls, "decoded_calls").valid
            calls[trap.place[0]][trap.place[1]] = call_text(trap.wrong)
            assert not judge(task, calls, "decoded_calls").valid


def test_moves_of_the_table_are_what_plans_show() -> None:
    refusal = '{"error": "Brake pedal needs to be pressed when starting the engine."}'
    assert FUNCTIONS["startEngine"].helpers(refusal) == ["pressBrakePedal"]
    changing, shown = set[str](), 0
    for index in range(150):
        plan = multi_turn_plan("multi_turn_base", 14, index)
        talk = PlanSession.of_plan(plan)
        session = talk.session
        for call in calls_of(plan):
            before = session.public_state()
            result = parse_result(talk.execute(call))
            changing |= {call.function} if session.public_state() != before else set()
            given = {name: value.value for name, value in call.arguments.items()}
            kinds = FUNCTIONS[call.function].kinds_in_result(given)
            for path, value in leaves_with_paths(result):
                if (kind := kinds.get(pattern(path))) in REFERENCE_KINDS - {"contact", "account"}:
                    shown += 1
                    assert value in nameable_values(kind, session.live_state()), (call, path)
    assert shown > 100
    assert len(changing) > 20
    assert all(FUNCTIONS[name].changes for name in changing)


@pytest.mark.prove
@pytest.mark.skipif(not OFFICIAL.is_dir(), reason="official data is not here")
def test_forged_plans_measure_like_official_tasks() -> None:
    official = count_multi_turn(load_tasks(OFFICIAL / "BFCL_v4_multi_turn_base.json"))
    plans = (multi_turn_plan("multi_turn_base", 1, index) for index in range(12000))
    forged = count_multi_turn(bare_task(plan) for plan in plans)
    figures, reference = map(measure_multi_turn, (forged, official))
    for name in ("later_result", "final_state", "neither"):
        assert figures["effects"][name] == pytest.approx(reference["effects"][name], abs=5)
    assert figures["turns_per_task"] == pytest.approx(reference["turns_per_task"], abs=0.2)
    shares = (
        [(each["calls"][n] + 0.5) / (each["calls"].total() + 4) for n in range(8)]
        for each in (official, forged)
    )
    assert sum(p * math.log(p / q) for p, q in zip(*shares, strict=True)) < 0.02  # in nats
    assert set(official["classes"]) <= set(forged["classes"])
    missing = set(official["edges"]) - set(
        forged["edges"]
    )  # the rarest come once in some thousands
    assert len(forged["edges"]) - len(official["edges"]) >= 100, len(forged["edges"])
    assert len(missing) <= 1, sorted(missing)


@pytest.mark.prove
@pytest.mark.skipif(not OFFICIAL.is_dir(), reason="official data is not here")
@pytest.mark.parametrize("category", ["multi_turn_long_context", "multi_turn_composite"])
def test_truth_passes_in_long_context(category: str) -> None:
    for index in range(10):
        plan = multi_turn_plan(category, 13, index)
        assert verdict(plan, bare_task(plan).ground_truth or [])
