"""Demonstrations of several turns: calls wait for the results that their values come from.

What nobody said is looked up.
"""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from operator import ne
from pathlib import Path

import pytest

from evaluate_fctncalling import main
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Call, Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.judging.strict import strict_verdict
from fctncalling.evaluation.agents.agent import ScriptedPlayer
from fctncalling.evaluation.episode_log import play_episode
from fctncalling.evaluation.scripted_policies import DONE, PolicyInput
from fctncalling.training.demonstrations import GroundTruthPolicy, prerequisite_lookup


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
    file: Path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    words = ["forge", "--num_tasks", "50", "--seed", "9", "--category", "multi_turn_base"]
    words += ["--apis", "TradingBot", "VehicleControlAPI", "GorillaFileSystem"]
    assert main([*words, "--output", str(file)]) == 0
    return load_tasks(file)


def test_no_message_takes_a_price_or_number_that_its_own_calls_show(tasks: list[Task]) -> None:
    """Oracle: order ids and prices are drawn for each task; a message has at most those of before.

    The calls are those of the truth, in order, but for look-ups, and the strict verdict takes them.
    """
    env = FunctionCallingEnv(tasks=tasks)
    waited = looked_up = 0
    for task in tasks:
        played = play_episode(env, task.id, ScriptedPlayer(GroundTruthPolicy(), task, "", DONE))
        verdict = played.episode.verdict
        assert verdict is not None
        assert strict_verdict(task, played.episode.steps, verdict).valid
        called = [list(step.calls) for step in played.episode.steps if step.calls]
        truth = [call for turn in oracle_calls(task) for call in turn]
        told = iter(call for calls in called for call in calls)
        others = [it for call in truth for it in takewhile(partial(ne, call), told)]
        assert {call.name for call in others} <= {"get_symbol_by_name", "displayCarStatus"}
        assert not list(told)
        looked_up += len(others)
        for calls in called:
            names = [call.name for call in calls]
            if "place_order" in names:  # at the price that the stock is traded at
                shown = [c.arguments["symbol"] for c in calls if c.name == "get_stock_info"]
                places = [c for c in calls if c.name == "place_order"]
                assert not any(
                    c.arguments["symbol"] in shown and str(c.arguments["price"]) not in said(task)
                    for c in places
                )
            waited += names == ["estimate_distance"] or names[0] == "place_order"
    assert waited >= 10
    assert looked_up >= 5


@pytest.mark.parametrize(
    ("call", "heard", "expected"),
    [
        (("get_stock_info", {"symbol": "GOOG"}), "how is Google?", "Google"),
        (("add_to_watchlist", {"stock": "QUAS"}), "watch Quasar Ltd., please", "Quasar Ltd."),
        (("get_stock_info", {"symbol": "GOOG"}), "how is GOOG?", None),  # said
        (("get_stock_info", {"symbol": "GOOG"}), 'Google {"symbol": "GOOG"}', None),  # shown
        (("get_stock_info", {"symbol": "GOOG"}), "how is it?", None),  # no name to look up
        (("get_stock_info", {"symbol": "YARW"}), "how is Yarrow?", None),  # no symbol by name
        (("fillFuelTank", {"fuelAmount": 30.5}), "fill it up", "fuel"),
        (("fillFuelTank", {"fuelAmount": 30.0}), "30 gallons, please", None),
        (("fillFuelTank", {"fuelAmount": 30.0}), "in 130 miles", "fuel"),
        (("fillFuelTank", {"fuelAmount": 30.5}), 'fill it up {"fuelLevel": 19.5}', None),
        (("startEngine", {"ignitionMode": "START"}), "start", None),
    ],
)
def test_what_nobody_said_is_looked_up(
    call: tuple[str, dict[str, object]], heard: str, expected: str | None
) -> None:
    offered = ["get_symbol_by_name", "displayCarStatus"]
    found = prerequisite_lookup(Call(*call), heard, offered)
    assert (found and next(iter(found.arguments.values()))) == expected
    assert prerequisite_lookup(Call(*call), heard, []) is None  # where no function tells


def test_a_look_up_that_does_not_tell_is_made_once_a_turn() -> None:
    task = Task(
        "multi_turn_base_0",
        "multi_turn_base",
        [[{"role": "user", "content": "how is Google?"}]],
        ground_truth=[["get_stock_info(symbol='GOOG')"]],
    )
    tools = [{"function": {"name": "get_symbol_by_name"}}]
    policy = GroundTruthPolicy()
    steps = [PolicyInput(task, 0, step, "", tools, "", heard="Google?") for step in range(3)]
    found = list(map(policy, steps))
    assert found == ["[get_symbol_by_name(name='Google')]", "[get_stock_info(symbol='GOOG')]", DONE]


def said(task: Task) -> str:
    return " ".join(message["content"] for turn in task.question for message in turn)


def situation(task: Task, heard: str, step: int) -> PolicyInput:
    return PolicyInput(task, 0, step, "", [], "", heard=heard)


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        ("buy 5 GOOG", ["[a(x=5)]", "[b(y=7.5), c(z='GOOG')]", DONE]),  # 7.5: a result, no doubt
        ("buy 5 GOOG at 7.5", ["[a(x=5), b(y=7.5), c(z='GOOG')]", DONE]),
        ("buy 5 GOOGLE at 7.5", ["[a(x=5), b(y=7.5)]", "[c(z='GOOG')]", DONE]),  # a word of its own
        ("buy 5 at 17.5, GOOG", ["[a(x=5)]", "[b(y=7.5), c(z='GOOG')]", DONE]),
    ],
)
def test_messages_break_where_a_value_is_not_known_yet(heard: str, expected: list[str]) -> None:
    task = Task(
        "multi_turn_base_0",
        "multi_turn_base",
        [[{"role": "user", "content": heard}]],
        ground_truth=[["a(x=5)", "b(y=7.5)", "c(z='GOOG')"]],
    )
    policy = GroundTruthPolicy()
    found = [policy(situation(task, heard, 0))]
    while found[-1] != DONE:
        found.append(policy(situation(task, f"{heard} 7.5", len(found))))
    assert found == expected
