"""Memory prerequisites: the policy holds the earlier conversations itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fctncalling.data.agentic_tasks import is_prerequisite
from fctncalling.data.types import Task
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.function_calling import FunctionCallingEnv

Policy = Callable[[str, Mapping[str, Any]], str]
"""(observation, info) -> the assistant's message."""

Snapshots = dict[tuple[str, str], dict[str, Any]]
"""(memory class, scenario) -> what the memory holds after the scenario's conversations."""


def keep_notes(conversations: Sequence[Task], policy: Policy, **keywords: Any) -> Snapshots:
    """Return the memories a policy leaves behind when it holds the conversations
    (`BFCL_v4_memory_kv_prereq.json`).

    The conversations of a scenario follow each other, each a new episode that begins with the
    memory the one before left. `keywords` are the environment's. Raises InfrastructureError where
    an episode is invalid, ValueError for a task that is no such conversation.
    """
    held: Snapshots = {}
    for task in conversations:
        if not is_prerequisite(task):
            raise ValueError(
                f'task "{task.id}" ({task.category}) is no conversation that fills a memory'
            )
        [(name, scenario)] = task.initial_config.items()
        key = (name, scenario["scenario"])
        [task] = with_snapshots([task], held)
        held[key] = _played(FunctionCallingEnv(tasks=[task], **keywords), policy)[name]
    return held


def with_snapshots(tasks: Iterable[Task], snapshots: Snapshots) -> list[Task]:
    """Return the tasks, those of a memory that has a snapshot beginning with it, not with
    conversations replayed.
    """
    return [_with_snapshot(task, snapshots) for task in tasks]


def _with_snapshot(task: Task, snapshots: Snapshots) -> Task:
    config = {}
    for name, scenario in task.initial_config.items():
        snapshot = snapshots.get((name, scenario.get("scenario", "")))
        config[name] = scenario if snapshot is None else {**scenario, "snapshot": snapshot}
    return replace(task, initial_config=config)


def _played(env: FunctionCallingEnv, policy: Policy) -> dict[str, Any]:
    observation, info = env.reset()
    ended = False
    while not ended:
        observation, _, terminated, truncated, info = env.step(policy(observation, info))
        ended = terminated or truncated
    if "snapshot" not in info:
        raise InfrastructureError(
            f'task "{info["task_id"]}": {info.get("invalid_reason", "ended without a memory")}'
        )
    snapshot: dict[str, Any] = info["snapshot"]
    return snapshot
