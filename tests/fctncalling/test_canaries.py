"""Canaries: policies that understand nothing fail, the oracle never does, and the history-blind one
guesses.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from players import SHOP_DOCS, doc, shop_env, shop_task, simple_task, user

import evaluate_fctncalling
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.envs.judging.oracle import oracle_calls, parse_call_string
from fctncalling.envs.prompting.prompts import to_openai_tool
from fctncalling.evaluation.scripted_policies import PolicyInput, noop, oracle, placeholder_value
from fctncalling.lab.canaries import (
    HistoryBlind,
    _occurs,
    always_call,
    canary_policies,
    echo,
    first_function,
    limit_per_category,
    play_canaries,
    play_canary,
    rates_table,
)
from fctncalling.lab.lint import unsolvable_official_fault


def situation(task: Task, text: str = "Request 0.", turn: int = 0, step: int = 0) -> PolicyInput:
    return PolicyInput(
        task,
        turn,
        step,
        text,
        [to_openai_tool(doc) for doc in task.functions],
        "Call the functions.",
    )


def test_only_the_oracle_solves_the_embedded_tasks_that_need_calls(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert evaluate_fctncalling.main(["canaries", "--limit", "25", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["unsolved"] == {}
    for category, rates in report["success"].items():
        assert rates["oracle"] == report["success_strict"][category]["oracle"] == 1.0
        assert all(report["success_strict"][category][name] <= rates[name] for name in rates)
        for name in ("noop", "echo", "first_function", "always_call"):
            calls_nothing = name in ("noop", "echo")
            if category != "all":
                assert rates[name] == float(calls_nothing and category == "irrelevance")
        if category.startswith("multi_turn"):
            assert rates["history_blind"] < 0.7


def test_unsolvable_tasks_are_named_and_the_exit_code_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "simple_python.json"
    entry = {
        "id": "simple_python_0",
        "question": [user("?")],
        "function": [
            {
                "name": "f",
                "description": "",
                "parameters": {"type": "dict", "properties": {}, "required": ["x"]},
            }
        ],
        "ground_truth": [{"f": {}}],
    }
    path.write_text(json.dumps(entry))
    assert evaluate_fctncalling.main(["canaries", "--dataset_path", str(path)]) == 1
    shown = capsys.readouterr()
    assert "simple_python_0" in shown.err
    assert "missing_required" in shown.err
    assert shown.out.startswith("category")
    assert shown.out.count("category") == 1  # one table: strictly the rates are the same


THERMOSTAT = """
class Thermostat:
    def _load_scenario(self, scenario, long_context=False):
        self.degrees = scenario.get("degrees", 20)

    def set_degrees(self, degrees: int) -> dict:
        self.degrees = degrees
        return {"degrees": degrees}
"""


def test_the_oracle_is_strictly_right_on_tasks_of_an_own_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "canary_tools.py").write_text(THERMOSTAT)
    monkeypatch.syspath_prepend(tmp_path)
    entry = {
        "id": "multi_turn_base_0",
        "question": [[{"role": "user", "content": "Make it 23 degrees."}]],
        "involved_classes": ["canary_tools.Thermostat"],
        "ground_truth": [["set_degrees(degrees=23)"]],
    }
    path = tmp_path / "own.json"
    path.write_text(json.dumps([entry]))
    command = ["canaries", "--dataset_path", str(path), "--allow_task_tools", "--json"]
    assert evaluate_fctncalling.main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["success_strict"]["all"]["oracle"] == report["success"]["all"]["oracle"] == 1.0
    assert report["success_strict"]["all"]["noop"] == 0.0


JAVA = "BFCL_v4_simple_java.json"


def test_tasks_that_the_official_checker_spoils_are_named_and_are_no_fault_of_ours(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["canaries", "--json", "--dataset_path", str(shared / "bfcl/data" / JAVA)]
    assert evaluate_fctncalling.main(told) == 0
    report = json.loads(capsys.readouterr().out)
    numbers = (1, 35, 36, 65)
    assert list(report["official_faults"]) == [f"simple_java_{number}" for number in numbers]
    assert (report["unsolved"], report["success"]["all"]["oracle"]) == ({}, 0.96)
    own = simple_task(functions=())
    assert unsolvable_official_fault(replace(own, id="simple_java_36")) is None, (
        "a user's task of that id"
    )


def test_unreadable_data_is_one_message_and_exit_code_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate_fctncalling.main(["canaries", "--dataset_path", str(tmp_path / "no.json")]) == 2
    assert "no.json" in capsys.readouterr().err


def test_degenerate_policies_say_what_they_are_named_for() -> None:
    task = shop_task(["look()"])
    assert noop(situation(task)) == ""
    assert echo(situation(task, "Hello")) == "Hello"
    assert (
        first_function(situation(task))
        == always_call(situation(task, step=9))
        == "[sell(item='value')]"
    )
    assert first_function(situation(task, step=1)) == "Done."
    assert always_call(situation(simple_task(functions=()))) == "Done."
    assert (oracle(situation(task)), oracle(situation(task, step=1))) == ("[look()]", "Done.")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 1),
        ({"type": "number"}, 1.0),
        ({"type": "array", "items": {"type": "string"}}, []),
        ({"type": "string", "enum": ["b", "a"]}, "b"),
        ({"type": "string", "default": ""}, ""),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "boolean"}, "b": {}},
                "required": ["a"],
            },
            {"a": True},
        ),
        ({}, "value"),
    ],
)
def test_placeholder_fits_its_schema(schema: dict[str, object], value: object) -> None:
    assert placeholder_value(schema) == value


@pytest.mark.parametrize(
    ("value", "text", "occurs"),
    [
        ("apple", "An APPLE, please", True),
        ("apple", "A pear", False),
        (1, "10 or 21", False),
        (10, "exactly 10.", True),
        (10.0, "exactly 10", True),
        (1.5, "1.50", False),
        (1.5, "for 1.5 hours", True),
        (-3, "at -3 degrees", True),
        (2, "v1.2", False),
    ],
)
def test_a_value_occurs_as_a_whole_number_or_anywhere_as_text(
    value: object, text: str, occurs: bool
) -> None:
    assert _occurs(value, text, set()) == occurs


def test_history_blind_plays_what_is_told_and_guesses_what_is_not() -> None:
    told = shop_task(
        ["sell('apple', 4)"], question=[user("Sell an apple for 4.")], task_id="multi_turn_base_0"
    )
    others = [
        shop_task([f"sell('fruit{i}', {i})"], task_id=f"multi_turn_base_{i}")
        for i in range(100, 150)
    ]
    blind = HistoryBlind([told, *others], seed=1)
    assert blind(situation(told, "Sell an apple for 4.")) == "[sell(item='apple', price=4)]"
    guesses = {blind(situation(task, "The same again.")) for task in others}
    assert len(guesses) > 20
    # Each of its 51 x 51 guesses is one the data set holds; right ones by chance alone.
    right = sum(blind(situation(task, "?")) == oracle(situation(task)) for task in others)
    assert right <= 2
    assert blind(situation(others[0], "?")) == HistoryBlind([told, *others], seed=1)(
        situation(others[0], "?")
    )
    assert any(
        blind(situation(task, "?")) != HistoryBlind([told, *others], seed=2)(situation(task, "?"))
        for task in others
    )


def test_history_blind_finds_what_enum_default_and_instructions_tell() -> None:
    parameters = {
        "type": "dict",
        "properties": {
            "a": {"type": "string", "enum": ["x", "y"]},
            "b": {"type": "integer", "default": 7},
            "c": {"type": "string"},
        },
        "required": ["a"],
    }
    functions = [FunctionDoc("f", "", parameters)]
    truths = [
        [{"f": {"a": [a], "b": [7], "c": [c]}}] for a, c in (("x", "functions"), ("y", "unheard"))
    ]
    tasks = [
        simple_task(f"simple_python_{i}", functions=functions, ground_truth=t)
        for i, t in enumerate(truths)
    ]
    blind = HistoryBlind(tasks, seed=0)
    assert blind(situation(tasks[0], "?")) == "[f(a='x', b=7, c='functions')]"
    assert {HistoryBlind(tasks, seed)(situation(tasks[1], "?")) for seed in range(30)} == {
        "[f(a='y', b=7, c='functions')]",
        "[f(a='y', b=7, c='unheard')]",
    }


@pytest.mark.parametrize("language", ["java", "javascript"])
def test_canaries_write_the_literals_of_a_task_s_language(language: str) -> None:
    pytest.importorskip(f"tree_sitter_{language}")
    kind = "boolean" if language == "java" else "Boolean"
    docs = [doc("f", ["a", "b"], a=kind, b="String")]
    truth = [{"f": {"a": [True], "b": ["told"]}}]
    task = simple_task(
        f"simple_{language}_0", category=f"simple_{language}", functions=docs, ground_truth=truth
    )
    tasks = [task, simple_task()]
    rates, _, unsolved = play_canaries(tasks, canary_policies(tasks, 0))
    assert unsolved == {}
    of_language = rates[f"simple_{language}"]
    assert (of_language["oracle"], of_language["history_blind"], of_language["noop"]) == (
        1.0,
        1.0,
        0.0,
    )


def test_episodes_without_verdict_are_neither_success_nor_failure() -> None:
    task = shop_task(["look()"], initial_config={"Shop": {"broken": True}})
    verdict, _, why = play_canary(shop_env(task), task, oracle)
    assert verdict is None
    assert "jammed" in why


def test_limit_counts_tasks_of_each_category() -> None:
    tasks = [simple_task(f"simple_python_{i}") for i in range(5)] + [
        shop_task([], task_id=f"multi_turn_base_{i}") for i in range(2)
    ]
    assert [task.id for task in limit_per_category(tasks, 3)] == [
        task.id for task in [*tasks[:3], *tasks[5:]]
    ]
    assert limit_per_category(tasks, None) == tasks


def test_rates_are_shares_of_valid_verdicts_and_their_table_is_aligned() -> None:
    tasks = [simple_task(), simple_task("irrelevance_0", category="irrelevance", ground_truth=None)]
    rates, _, unsolved = play_canaries(tasks, canary_policies(tasks, 0))
    assert unsolved == {}
    assert [rates["all"][name] for name in ("noop", "oracle", "first_function")] == [0.5, 1.0, 0.0]
    lines = rates_table(rates, Counter(task.category for task in tasks)).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[-1].split()[:3] == ["all", "2", "50.0"]


@pytest.mark.parametrize("text", ["f(", "f() + 1", "f(a=b)", "x", "sell(1, 2, 3)"])
def test_ground_truth_that_is_no_call_of_literals_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        parse_call_string(text, {doc.name: doc for doc in SHOP_DOCS})


def test_oracle_names_positional_arguments_and_skips_what_may_be_left_out() -> None:
    call = oracle_calls(shop_task(["sell('apple', price=2)"]))[0][0]
    assert (call.name, call.arguments) == ("sell", {"item": "apple", "price": 2})
    nested = [{"sell": {"item": [{"a": ["", "x"], "b": [""]}], "price": [""]}}]
    assert oracle_calls(simple_task(ground_truth=nested))[0][0].arguments == {"item": {"a": "x"}}
