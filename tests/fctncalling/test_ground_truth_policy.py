"""Demonstrations of several turns: a call waits for the result that its values come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluate_fctncalling import main
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.evaluation.agents.agent import PolicyPlayer
from fctncalling.evaluation.episode_log import play_episode
from fctncalling.evaluation.scripted_policies import DONE, PolicyInput
from fctncalling.training.ground_truth_policy import GroundTruthPolicy


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
    file: Path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    words = ["forge", "--num_tasks", "50", "--seed", "9", "--category", "multi_turn_base"]
    words += ["--apis", "TradingBot", "VehicleControlAPI", "GorillaFileSystem"]
    assert main([*words, "--output", str(file)]) == 0
    return load_tasks(file)


def test_no_message_takes_a_price_or_number_that_its_own_calls_show(tasks: list[Task]) -> None:
    """Oracle: order ids and prices are drawn for each task; a message has at most those of before.

    The calls are those of the truth, in order, and the strict verdict takes them.
    """
    env = FunctionCallingEnv(tasks=tasks)
    waited = 0
    for task in tasks:
        played = play_episode(env, task.id, PolicyPlayer(GroundTruthPolicy(), task, "", DONE))
        assert played.episode.verdict is not None
        assert played.episode.verdict.valid
        called = [list(step.calls) for step in played.episode.steps if step.calls]
        truth = [call for turn in oracle_calls(task) for call in turn]
        assert [call for calls in called for call in calls] == truth
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
