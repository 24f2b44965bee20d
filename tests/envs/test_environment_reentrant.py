"""Many multi-turn tasks, several at a time: none colours another, no tool outlives its own; memory
is flat.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from players import DONE, Replay, perfect_texts

from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.judging.judge import judge

MULTI_TURN = (
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
)
NUM_THREADS, NUM_EPISODES = 8, 4
NUM_PASSES, WARM_PASSES = 20, 4  # the first passes fill what is remembered of tasks: truths, offers
MAX_GROWTH = 2_000  # blocks: below one for each episode of a pass, so that nothing of any may stay
STEP = 50  # of the sample that the fast suite takes


@pytest.fixture(autouse=True)
def _long_context(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FCTNCALLING_LONG_CONTEXT", str(shared / "bfcl/data/long_context.json"))


@pytest.fixture
def _threads_take_turns_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(usual)


def tasks_of(shared: Path, step: int) -> list[Task]:
    """Return every `step`-th task of each multi-turn category."""
    files = [shared / "bfcl/data" / f"BFCL_v4_{category}.json" for category in MULTI_TURN]
    return [task for file in files for task in load_tasks(file)[::step]]


def play_side_by_side(tasks: Sequence[Task], together: threading.Barrier) -> list[str]:
    """Return the ids of tasks that fail in one of several perfect episodes that take turns, one of
    them after errors.

    All threads begin a task at the same time, so that its episodes overlap within and between them.
    """
    envs = [FunctionCallingEnv(tasks=tasks) for _ in range(NUM_EPISODES)]
    failed = []
    for task in tasks:
        texts = perfect_texts(task)
        together.wait(600)
        Replay(envs[0], [text for text in texts if text != DONE for _ in range(2)], task.id)
        for env in envs:
            env.reset(options={"task_id": task.id})
        steps = [[env.step(text) for env in envs] for text in texts]
        failed += [task.id for *_, info in steps[-1] if not info["verdict"].valid]
    return failed


@pytest.mark.usefixtures("_threads_take_turns_often")
@pytest.mark.parametrize("step", [4 * STEP, pytest.param(1, marks=pytest.mark.prove)])
def test_eight_threads_of_four_episodes_at_a_time_flip_no_verdict(shared: Path, step: int) -> None:
    tasks = tasks_of(shared, step)
    together = threading.Barrier(NUM_THREADS)
    with ThreadPoolExecutor(NUM_THREADS) as threads:
        failed = [threads.submit(play_side_by_side, tasks, together) for _ in range(NUM_THREADS)]
    assert [each.result() for each in failed] == [[]] * NUM_THREADS
    print(f"{len(tasks)} tasks x {NUM_THREADS} threads x {NUM_EPISODES} episodes: no verdict flips")


@pytest.fixture
def _older_objects_left_out() -> Iterator[None]:
    """Take all objects of today out of what the collector looks through."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def tools_alive() -> int:
    """Return how many tools exist, their cyclic remains collected."""
    gc.collect()
    return sum(
        type(each).__module__.startswith("fctncalling.envs.tools.")
        and hasattr(each, "_load_scenario")
        for each in gc.get_objects()
        if not isinstance(each, type)
    )


def play_all(tasks: Sequence[Task]) -> int:
    """Play and judge each task, well and badly; return how many are valid both ways."""
    env = FunctionCallingEnv(tasks=tasks)
    valid = 0
    for task in tasks:
        texts = perfect_texts(task)
        assert not Replay(env, texts[:1], task.id).ended
        played = Replay(env, texts, task.id)
        valid += played.valid and judge(task, _by_turn(texts)).valid
    return valid


def _by_turn(texts: Sequence[str]) -> list[list[str]]:
    turns: list[list[str]] = [[]]
    for text in texts:
        turns[-1].append(text)
        if text == DONE:
            turns.append([])
    return turns[:-1]


@pytest.mark.usefixtures("_older_objects_left_out")
def test_no_tool_survives_its_episode(shared: Path) -> None:
    tasks = tasks_of(shared, STEP)
    before = tools_alive()
    env = FunctionCallingEnv(tasks=tasks)
    for task in tasks:
        Replay(env, perfect_texts(task), task.id)
    assert tools_alive() - before <= len(tasks[-1].involved_classes), (
        "those of the episode that the environment shows"
    )
    del env
    assert tools_alive() == before
    assert play_all(tasks) == len(tasks)
    assert tools_alive() == before


@pytest.mark.prove
def test_memory_is_flat_over_twenty_passes_of_all_multi_turn_tasks(shared: Path) -> None:
    tasks = tasks_of(shared, 1)
    before, blocks = tools_alive(), list[int]()
    for _ in range(NUM_PASSES):
        assert play_all(tasks) == len(tasks) == 800
        assert tools_alive() == before
        blocks.append(sys.getallocatedblocks())
    print(f"{len(tasks)} tasks, {NUM_PASSES} passes: allocated blocks {blocks}")
    assert max(blocks[WARM_PASSES:]) - blocks[WARM_PASSES - 1] < MAX_GROWTH
