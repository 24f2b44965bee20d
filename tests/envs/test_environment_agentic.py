"""Agentic tasks in the environment: tools within one turn, the last message judged, memories filled
before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.function_calling import FunctionCallingEnv

ANSWER_TEXT = "{{'answer': '{}', 'context': 'found'}}"


def task_file(shared: Path, category: str) -> Path:
    return shared / "bfcl/data" / f"BFCL_v4_{category}.json"


def started_with(task: Task, snapshot: Any) -> Task:
    """Return a task whose memory begins with a snapshot."""
    [(name, scenario)] = task.initial_config.items()
    return replace(task, initial_config={name: {**scenario, "snapshot": snapshot}})


@pytest.mark.parametrize(
    "category", ["memory_kv", "memory_rec_sum", "web_search_base", "web_search_no_snippet"]
)
def test_the_accepted_answer_succeeds_and_another_fails(shared: Path, category: str) -> None:
    tasks = load_tasks(task_file(shared, category))[::7]
    env = FunctionCallingEnv(tasks=tasks, reward="progress")
    for task in tasks:
        for answer, error in (
            (task.ground_truth[0], None),
            ("I do not know", "agentic:answer_not_found"),
        ):  # type: ignore[index]
            _, info = env.reset(options={"task_id": task.id})
            assert info["messages"][0]["role"] == "system"
            *_, reward, terminated, _, info = env.step(ANSWER_TEXT.format(answer))
            assert terminated
            assert (info["verdict"].error_type, reward) == (error, float(error is None))


def test_notes_of_earlier_conversations_are_shown_and_found_by_calls(shared: Path) -> None:
    env = FunctionCallingEnv(dataset_path=task_file(shared, "memory_kv"))
    observation, info = env.reset(options={"task_id": "memory_kv_0-customer-0"})
    assert {tool["function"]["name"] for tool in info["tools"]} >= {
        "core_memory_add",
        "archival_memory_key_search",
    }
    assert "Michael" in observation  # the core, always shown
    assert "What is my first name?" in observation
    observation, _, terminated, _, info = env.step(
        "[archival_memory_key_search(query='espresso machine')]"
    )
    assert not terminated
    assert "customer_" in observation
    *_, terminated, _, info = env.step("Your name is Michael.")
    assert terminated
    assert info["verdict"].valid


def test_an_episode_of_calls_only_has_no_last_message(shared: Path) -> None:
    env = FunctionCallingEnv(dataset_path=task_file(shared, "memory_rec_sum"), max_steps_per_turn=2)
    env.reset(options={"task_id": "memory_rec_sum_0-customer-0"})
    for _ in range(3):
        *_, terminated, _, info = env.step("[memory_retrieve()]")
    assert terminated
    assert info["error"] == "step_limit"
    assert info["verdict"].error_type == "agentic:no_last_message"


def test_what_one_episode_writes_the_next_does_not_read(shared: Path) -> None:
    env = FunctionCallingEnv(dataset_path=task_file(shared, "memory_rec_sum"))
    first, _ = env.reset(options={"task_id": "memory_rec_sum_0-customer-0"})
    env.step("[memory_update(text='nothing is left')]")
    state = env.get_state()
    again, _ = env.reset(options={"task_id": "memory_rec_sum_0-customer-0"})
    assert again == first
    env.set_state(state)
    assert "nothing is left" in env.step("[memory_retrieve()]")[0]


def test_a_policy_holds_the_conversations_itself_and_is_asked_about_its_notes(shared: Path) -> None:
    def policy(observation: str, info: Mapping[str, Any]) -> str:
        text = str(info["messages"][-1]["content"]) if info["messages"] else ""
        if info["error"] is None and info["calls"]:
            return "Noted."
        return f"[memory_append(text={text[:40]!r})]"

    conversations = [
        t for t in load_tasks(task_file(shared, "memory_rec_sum_prereq")) if "notetaker" in t.id
    ]
    notes = None
    for conversation in conversations:
        env = FunctionCallingEnv(
            tasks=[conversation if notes is None else started_with(conversation, notes)]
        )
        observation, info = env.reset()
        ended = False
        while not ended:
            observation, _, terminated, truncated, info = env.step(policy(observation, info))
            ended = terminated or truncated
        [notes] = info["snapshot"].values()
    assert notes is not None
    assert 0 < len(notes["memory"]) <= 10_000
    first, last = conversations[0].question[0][0], conversations[-1].question[0][0]
    assert first["content"][:40] in notes["memory"]
    assert last["content"][:40] in notes["memory"]
    tasks = [
        task for task in load_tasks(task_file(shared, "memory_rec_sum")) if "notetaker" in task.id
    ]
    env = FunctionCallingEnv(tasks=[started_with(task, notes) for task in tasks])
    observation, _ = env.reset(options={"task_id": tasks[0].id})
    assert notes["memory"] in observation


def test_a_missing_library_is_told_at_reset_not_counted_as_a_failure(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    env = FunctionCallingEnv(dataset_path=task_file(shared, "memory_vector"))
    with pytest.raises(MissingExtra, match="memory-vector"):
        env.reset()


def test_a_snapshot_of_the_wrong_shape_makes_the_episode_invalid(shared: Path) -> None:
    task = started_with(load_tasks(task_file(shared, "memory_kv"))[0], "text")
    env = FunctionCallingEnv(tasks=[task])
    _, info = env.reset()
    assert "snapshot" in info["invalid_reason"]
