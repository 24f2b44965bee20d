"""Prompts of roles: the functions that each may call, its instructions and its knowledge."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple

from fctncalling.data.types import Message, Task, Verdict
from fctncalling.envs.handlers import Handler
from fctncalling.envs.handlers.registry import resolve_handler
from fctncalling.envs.judging.judge import bounded_memo
from fctncalling.envs.prompting import prompts
from fctncalling.envs.prompting.prompts import TaskPrompt
from fctncalling.envs.teams.team import Team, TeamRole

YOUR_TURN: Message = {"role": "user", "content": "Your turn."}
"""What a role reads whose turn comes when nobody wrote anything that it sees."""


class RoleViews:
    """Unread messages of each role of a conversation."""

    def __init__(self, roles: Mapping[str, TeamRole]) -> None:
        self._roles = roles
        self._unread: dict[str, list[Message]] = {name: [] for name in roles}

    def deliver(
        self, source: str, messages: Sequence[Message], *, writer: str = "", owner: str = ""
    ) -> None:
        """Deliver messages of a source ("user", "tool" or a role) to the roles that see it.

        writer: who wrote them and needs no copy. owner: who gets them in any case.
        """
        for name, role in self._roles.items():
            if name != writer and (source in role.sees or name == owner):
                self._unread[name] += [_for_role(role, message) for message in messages]

    def share_message(self, role: str, text: str) -> None:
        """Share a role's message with the other roles that see it."""
        self.deliver(role, [{"role": "user", "content": f"{role}: {text}"}], writer=role)

    def take_unread(self, role: str) -> list[Message]:
        """Return a role's unread messages, at least one, as chat templates need a message."""
        messages, self._unread[role] = self._unread[role], []
        return messages or [dict(YOUR_TURN)]


def _for_role(role: TeamRole, message: Message) -> Message:
    """Copy a message with only those tools that the role may call."""
    message = copy.deepcopy(message)
    offered = message.pop("tools", ())
    if tools := [tool for tool in offered if role.may_call(tool["function"]["name"])]:
        message["tools"] = tools
    return message


class RolePrompts:
    """Prompts of tasks for each role, cached."""

    def __init__(self, handler: Handler, style: str) -> None:
        self.handler = handler
        self._style = style
        self._prompts: dict[str, TaskPrompt] = {}

    def instructions(self, task: Task, role: TeamRole) -> str:
        """Return a role's instructions on calls and functions; "" if it calls no tools."""
        return self._prompt(task, role).system if role.calls_tools else ""

    def tools(self, task: Task, turn: int, role: TeamRole) -> list[dict[str, Any]]:
        """Return the schemas of the tools that a role may call in a turn."""
        return self._prompt(task, role).tools(turn) if role.calls_tools else []

    def _prompt(self, task: Task, role: TeamRole) -> TaskPrompt:
        def make() -> TaskPrompt:
            return TaskPrompt(
                _of_role(task, role), resolve_handler(self.handler, task), self._style
            )

        return bounded_memo(self._prompts, f"{role.name}/{task.id}", make)


def with_role_system_message(
    role: TeamRole, task: Task, messages: Sequence[Message]
) -> list[Message]:
    """Return messages preceded by the role's system message."""
    knowledge = task.extra.get("knowledge", {})
    parts = [role.instructions] if role.instructions else []
    parts += [f"{name}: {knowledge[name]}" for name in role.knows if name in knowledge]
    rest = list(messages)
    while rest and rest[0]["role"] == "system":
        parts.append(str(rest.pop(0)["content"]))
    rest = rest or [dict(YOUR_TURN)]
    return [{"role": "system", "content": "\n".join(parts)}, *rest] if parts else rest


def initial_team_state(team: Team, task: Task) -> str:
    """Return a team's initial state for a central critic: the system text of each role.

    For a central critic.
    """
    views = [(role.name, with_role_system_message(role, task, ())) for role in team.roles.values()]
    return "\n".join(
        f"{name}: {messages[0]['content']}"
        for name, messages in views
        if messages[0]["role"] == "system"
    )


def team_observation(messages: Sequence[Message]) -> str:
    """Join messages to an observation; results are formatted as in FunctionCallingEnv."""
    texts = []
    for is_result, group in groupby(messages, lambda message: message["role"] == "tool"):
        members = list(group)
        texts.append(repr(members) if is_result else prompts.join_contents(members))
    return "\n\n".join(texts)


def common_info(info: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the environment's `info` that are the same for all roles."""
    own = ("tools", "instructions", "turn", "stop", "continuation", "observation_bytes_cut")
    return {key: value for key, value in info.items() if key not in own}


def _of_role(task: Task, role: TeamRole) -> Task:
    """Return a task with only the functions of a role."""
    return replace(
        task,
        functions=[doc for doc in task.functions if role.may_call(doc.name)],
        missed_functions={
            turn: [name for name in names if role.may_call(name)]
            for turn, names in task.missed_functions.items()
        },
    )


class DraftMessage(NamedTuple):
    """Message that waits for another role's approval."""

    position: int
    text: str


@dataclass
class TeamConversation:
    """Conversation of a team in one episode: role in turn, drafts, views and log."""

    team: Team
    views: RoleViews
    position: int = 0  # in the turn order
    turn: int = 0  # of the user
    num_messages: int = 0  # since the user's, of those that reached no environment
    draft: DraftMessage | None = None
    opened: set[str] = field(default_factory=set)  # roles that have been shown their instructions
    log: list[Message] = field(default_factory=list)  # for the transcript
    ended: bool = False
    verdict: Verdict | None = None

    @property
    def role(self) -> str:
        """Name of the role in turn."""
        return self.team.turn_order[self.position]

    def share_message(self, text: str) -> None:
        """Share a message of the current role with the other roles."""
        self.views.share_message(self.role, text)

    def pass_turn(self) -> None:
        """Pass the turn to the next role of the turn order."""
        self.position = (self.position + 1) % len(self.team.turn_order)

    def begin_turn(self, turn: int) -> None:
        """Begin the user's next turn with the first role of the turn order."""
        self.turn = turn
        self.position = 0
        self.num_messages = 0
        self.draft = None

    def count_message(self) -> bool:
        """Count a message that did not reach the environment; return whether it is one too many."""
        self.num_messages += 1
        return self.num_messages > self.team.max_messages
