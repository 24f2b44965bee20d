"""Views: the messages that each role has not read yet."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from fctncalling.data.types import Message
from fctncalling.envs.teams.team import TeamRole

YOUR_TURN: Message = {"role": "user", "content": "Your turn."}
"""What a role reads whose turn comes when nobody wrote anything that it sees."""


class RoleViews:
    """Unread messages of each role; who sees what is decided when a message comes."""

    def __init__(self, roles: Mapping[str, TeamRole]) -> None:
        self._roles = roles
        self._unread: dict[str, list[Message]] = {name: [] for name in roles}

    def deliver(
        self, source: str, messages: Sequence[Message], *, writer: str = "", owner: str = ""
    ) -> None:
        """Add messages of a source ("user", "tool" or a role) to the views that see it.

        writer: who wrote them and needs no copy. owner: who gets them in any case.
        """
        for name, role in self._roles.items():
            if name != writer and (source in role.sees or name == owner):
                self._unread[name] += [_for_role(role, message) for message in messages]

    def speak(self, role: str, text: str) -> None:
        """Add a role's message to the views of the others that see the role."""
        self.deliver(role, [{"role": "user", "content": f"{role}: {text}"}], writer=role)

    def take(self, role: str) -> list[Message]:
        """Return what a role has not read yet; never nothing, as chat templates want a message."""
        messages, self._unread[role] = self._unread[role], []
        return messages or [dict(YOUR_TURN)]


def _for_role(role: TeamRole, message: Message) -> Message:
    """Return a message's copy with those of its tools that the role may call."""
    message = copy.deepcopy(message)
    offered = message.pop("tools", ())
    if tools := [tool for tool in offered if role.may_call(tool["function"]["name"])]:
        message["tools"] = tools
    return message
