"""Official tasks through the environment: ground truth succeeds, nothing else does, and no episode
colours another.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import VerdictCounter
from players import DONE, Replay, perfect_texts

from fctncalling.data.bfcl import load_tasks
from fctncalling.data.categories import AST, MULTI_TURN, RELEVANCE
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv

SINGLE_TURN = tuple(category for category in AST if "java" not in category)
OFFICIAL_MULTI_TURN = tuple(name for name in MULTI_TURN if name != "multi_turn_composite")
# Ground truths that BFCL's own checker accepts no answer for.
UNSATISFIABLE = {
    "live_simple_106-63-0",
    "live_simple_112-68-0",
    "live_multiple_862-181-3",
    "live_multiple_964-207-0",
}


@pytest.fixture(autouse=True)
def _long_context(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FCTNCALLING_LONG_CONTEXT", str(shared / "bfcl/data/long_context.json"))


def sampled(categories: Iterable[str], step: int) -> pytest.MarkDecorator:
    """Return the marks of a test on every `step`-th case of each category, and on all in `make
    prove`.
    """
    few = [(category, step) for category in categories]
    every = [pytest.param(category, 1, marks=pytest.mark.prove) for category in categories]
    return pytest.mark.parametrize(("category", "step"), [*few, *every])


def tasks_of(shared: Path, category: str) -> list[Task]:
    return load_tasks(shared / "bfcl/data" / f"BFCL_v4_{category}.json")


def spoilt_texts(task: Task) -> list[str]:
    """Return a bad episode that changes as much as it can before it goes wrong: every calling
    message twice.
    """
    return [text for text in perfect_texts(task) if text != DONE for _ in range(2)]


@sampled([*SINGLE_TURN, *RELEVANCE], 5)
def test_ground_truth_of_every_single_turn_task_succeeds(
    shared: Path, category: str, step: int
) -> None:
    tasks = tasks_of(shared, category)[::step]
    env = FunctionCallingEnv(tasks=tasks, reward="progress")
    failed = {task.id for task in tasks if Replay(env, perfect_texts(task), task.id).total != 1.0}
    assert failed == {task.id for task in tasks} & UNSATISFIABLE


@sampled(OFFICIAL_MULTI_TURN, 8)
def test_perfect_episode_after_a_bad_one_succeeds_on_multi_turn_tasks(
    shared: Path, category: str, step: int
) -> None:
    tasks = tasks_of(shared, category)[::step]
    env = FunctionCallingEnv(tasks=tasks, reward="progress")
    flipped = []
    for task in tasks:
        spoilt = Replay(env, spoilt_texts(task), task.id)
        perfect = Replay(env, perfect_texts(task), task.id)
        if spoilt.ended or perfect.total != 1.0 or not perfect.valid:
            flipped.append(task.id)
    assert flipped == []


def play_in_thread(tasks: Sequence[Task]) -> list[str]:
    """Return the ids of tasks whose perfect episode, after a bad one, does not succeed."""
    env = FunctionCallingEnv(tasks=tasks)
    failed = []
    for task in tasks:
        Replay(env, spoilt_texts(task), task.id)
        if not Replay(env, perfect_texts(task), task.id).valid:
            failed.append(task.id)
    return failed


@sampled(OFFICIAL_MULTI_TURN[:3], 20)
def test_eight_threads_never_affect_each_other(shared: Path, category: str, step: int) -> None:
    tasks = tasks_of(shared, category)[::step]
    with ThreadPoolExecutor(8) as threads:  # all play the same tasks at about the same time
        failed = list(threads.map(play_in_thread, [tasks] * 8))
    assert failed == [[]] * 8


@sampled([*SINGLE_TURN, *OFFICIAL_MULTI_TURN], 5)
def test_empty_actions_never_succeed(shared: Path, category: str, step: int) -> None:
    tasks = tasks_of(shared, category)[::step]
    env = FunctionCallingEnv(tasks=tasks)
    assert not any(Replay(env, itertools.repeat(""), task.id).valid for task in tasks)


@sampled([*SINGLE_TURN, *RELEVANCE], 10)
def test_single_turn_verdicts_are_the_official_ones(
    shared: Path, category: str, step: int, verdict_counter: VerdictCounter
) -> None:
    env = FunctionCallingEnv(tasks=tasks_of(shared, category), handler="python_calls")
    records = list(records_of(shared, category))[::step]
    differ = []
    for record in records:
        verdict = Replay(env, [record["response"]], record["id"]).info["verdict"]
        if (verdict.valid, verdict.error_type) != (record["valid"], record["error_type"]):
            differ.append((record, verdict))
    assert differ == []
    verdict_counter.add(len(records))


@sampled(OFFICIAL_MULTI_TURN, 8)
def test_multi_turn_verdicts_are_the_official_ones(
    shared: Path, category: str, step: int, verdict_counter: VerdictCounter
) -> None:
    env = FunctionCallingEnv(tasks=tasks_of(shared, category))
    compared, differ = 0, []
    for record in list(records_of(shared, f"raw_{category}"))[::step]:
        info = dialogue(env, record["id"], record["response"])
        if info is None:
            continue
        compared += 1
        verdict = info["verdict"]
        if (verdict.valid, verdict.error_type) != (record["valid"], record["error_type"]):
            differ.append((record, verdict))
    assert differ == []
    assert compared > 600 / step
    verdict_counter.add(compared)


def records_of(shared: Path, name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(shared / "bfcl/verdicts" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def dialogue(env: FunctionCallingEnv, task_id: str, turns: Any) -> dict[str, Any] | None:
    """Return the last info of a recorded dialogue; None where no model could have held it.

    That is, where a turn goes on after a message without calls, or turns are missing or too many.
    """
    env.reset(options={"task_id": task_id})
    ended, info = False, None
    for index, texts in enumerate(turns if isinstance(turns, list) else []):
        turn_ended = False
        for text in [*texts, None] if isinstance(texts, list) else []:
            if ended or turn_ended:
                if text is None:
                    break
                return None
            *_, terminated, truncated, info = env.step(DONE if text is None else text)
            ended, turn_ended = terminated or truncated, info["turn"] != index
    return info if ended else None
