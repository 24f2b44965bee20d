"""Conversation: what a team has said in an episode, and whose turn it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from fctncalling.data.types import Message, Verdict
from fctncalling.envs.teams.role_views import RoleViews
from fctncalling.envs.teams.team import Team


class Draft(NamedTuple):
    """A message that waits for approval, and the place of its writer in the turn order."""

    position: int
    text: str


@dataclass
class Conversation:
    """Mutable state of an episode of a team."""

    team: Team
    views: RoleViews
    position: int = 0  # in the turn order
    turn: int = 0  # of the user
    num_messages: int = 0  # since the user's, of those that reached no environment
    draft: Draft | None = None
    opened: set[str] = field(default_factory=set)  # roles that have been shown their instructions
    log: list[Message] = field(default_factory=list)  # for the transcript
    ended: bool = False
    verdict: Verdict | None = None

    @property
    def role(self) -> str:
        """Name of the role whose turn it is."""
        return self.team.turn_order[self.position]

    def speak(self, text: str) -> None:
        """Let the others hear the role whose turn it is."""
        self.views.speak(self.role, text)

    def hand_on(self) -> None:
        """Go on to the next role of the turn order."""
        self.position = (self.position + 1) % len(self.team.turn_order)

    def begin_turn(self, turn: int) -> None:
        """Begin the user's next turn: the turn order begins anew."""
        self.turn = turn
        self.position = 0
        self.num_messages = 0
        self.draft = None

    def count_message(self) -> bool:
        """Count a message that reached no environment; whether it is one too many."""
        self.num_messages += 1
        return self.num_messages > self.team.max_messages
