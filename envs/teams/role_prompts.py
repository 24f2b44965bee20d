"""Prompts of roles: the functions that each may call, its instructions and what it knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from fctncalling.data.types import Message, Task
from fctncalling.envs.handlers import Handler
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.judging.episode_judge import bounded_memo
from fctncalling.envs.prompting import prompts
from fctncalling.envs.prompting.task_prompt import TaskPrompt
from fctncalling.envs.teams.role_views import YOUR_TURN
from fctncalling.envs.teams.team import Team, TeamRole


class RolePrompts:
    """Prompts of tasks as each role sees them, cached."""

    def __init__(self, handler: Handler, style: str) -> None:
        self._handler = handler
        self._style = style
        self._prompts: dict[str, TaskPrompt] = {}

    def handler_of(self, task: Task) -> Handler:
        """Return the handler that reads a task's calls."""
        return handler_for(task, "auto") if self._handler.name == "auto" else self._handler

    def instructions(self, task: Task, role: TeamRole) -> str:
        """Return the system text about calls and functions; empty for a role that calls nothing."""
        return self._prompt(task, role).system if role.calls_tools else ""

    def tools(self, task: Task, turn: int, role: TeamRole) -> list[dict[str, Any]]:
        """Return the schemas of what a role may call in a turn."""
        return self._prompt(task, role).tools(turn) if role.calls_tools else []

    def _prompt(self, task: Task, role: TeamRole) -> TaskPrompt:
        def make() -> TaskPrompt:
            return TaskPrompt(_of_role(task, role), self.handler_of(task), self._style)

        return bounded_memo(self._prompts, f"{role.name}/{task.id}", make)


def with_role_system(role: TeamRole, task: Task, messages: Sequence[Message]) -> list[Message]:
    """Return a role's first messages with its instructions and what it knows in front."""
    knowledge = task.extra.get("knowledge", {})
    parts = [role.instructions] if role.instructions else []
    parts += [f"{name}: {knowledge[name]}" for name in role.knows if name in knowledge]
    rest = list(messages)
    while rest and rest[0]["role"] == "system":
        parts.append(str(rest.pop(0)["content"]))
    rest = rest or [dict(YOUR_TURN)]
    return [{"role": "system", "content": "\n".join(parts)}, *rest] if parts else rest


def team_state(team: Team, task: Task) -> str:
    """Return what all roles are told of a task at its beginning, each under its name.

    For a central critic.
    """
    told = [(role.name, with_role_system(role, task, ())) for role in team.roles.values()]
    return "\n".join(
        f"{name}: {messages[0]['content']}"
        for name, messages in told
        if messages[0]["role"] == "system"
    )


def joined_contents(messages: Sequence[Message]) -> str:
    """Return messages as one observation, results of calls as FunctionCallingEnv shows them."""
    texts = []
    for is_result, group in groupby(messages, lambda message: message["role"] == "tool"):
        members = list(group)
        texts.append(repr(members) if is_result else prompts.join_contents(members))
    return "\n\n".join(texts)


def common_info(info: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the environment's `info` that are the same for every role."""
    own = ("tools", "instructions", "turn", "stop", "continuation", "observation_bytes_cut")
    return {key: value for key, value in info.items() if key not in own}


def _of_role(task: Task, role: TeamRole) -> Task:
    """Return a task with the functions of a role alone."""
    return replace(
        task,
        functions=[doc for doc in task.functions if role.may_call(doc.name)],
        missed_functions={
            turn: [name for name in names if role.may_call(name)]
            for turn, names in task.missed_functions.items()
        },
    )
