"""Team: roles, what each sees, knows and calls, and the order in which they speak."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

USER = "user"  # source of messages: the user's turns
TOOL = "tool"  # source of messages: results of calls, of whichever role
ALL_TOOLS = "all"
BUILT_IN_TEAMS = (
    "planner_caller",
    "caller_checker",
    "parcels",
    "parcels_alone",
    "parcels_addresses_alone",
    "parcels_boxes_alone",
)
"""Teams that come with the package, by name."""


class TeamError(ValueError):
    """A team that cannot play; the message names the team, the field and what was expected."""


@dataclass(frozen=True)
class RoleRewards:
    """Reward of one role: its share of the team's, and the price of its own messages and errors."""

    team: float = 1.0  # times the environment's reward
    message: float = 0.0  # for each message of the role's own
    error: float = 0.0  # for each of them whose calls failed or could not be read


@dataclass(frozen=True)
class TeamRole:
    """One role: its instructions, whose messages it sees, what it knows, what it may call.

    `sees`: "user", "tool" (results of the others' calls) and names of roles. A role's own messages
    and the results of its own calls are always in its view. `knows`: names of the pieces of
    `extra["knowledge"]` of a task. `tools`: names of functions; None: all that the task offers.
    """

    name: str
    instructions: str = ""
    sees: tuple[str, ...] = (USER,)
    knows: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = ()
    rewards: RoleRewards = field(default_factory=RoleRewards)

    @property
    def calls_tools(self) -> bool:
        """Whether the role may call anything."""
        return self.tools is None or bool(self.tools)

    def may_call(self, function: str) -> bool:
        """Whether the role may call this function."""
        return self.tools is None or function in self.tools


@dataclass(frozen=True)
class Passing:
    """A role whose message passes something on, if it contains a word; "": any message does."""

    role: str
    word: str = ""

    def holds(self, role: str, text: str) -> bool:
        """Whether this message of this role passes it on."""
        return role == self.role and self.word in text


@dataclass(frozen=True)
class Team:
    """Roles of one conversation and the order in which they speak.

    `turn_order` is a cycle that begins anew with each turn of the user. A role keeps its turn while
    its calls are answered; a message without calls hands on. `answer`: whose message without calls
    is the team's answer to the user, which ends the user's turn. `approval`: who must agree before
    calls or answers of the other roles reach the environment; None: nobody. `max_messages`: between
    two turns of the user; one more ends the episode unsolved.
    """

    name: str
    roles: Mapping[str, TeamRole]
    turn_order: tuple[str, ...]
    answer: Passing
    approval: Passing | None = None
    max_messages: int = 20

    @property
    def own_rewards(self) -> bool:
        """Whether some role is paid otherwise than the team."""
        return any(role.rewards != RoleRewards() for role in self.roles.values())

    def rewards_info(self, reward: float, spoke: str, erred: str | None) -> dict[str, Any]:
        """Return the field "rewards" of `info`: what a step pays each role, where they differ.

        reward: the environment's. spoke: who acted. erred: whose calls failed, if any did.
        """
        if not self.own_rewards:
            return {}
        paid = {
            name: role.rewards.team * reward
            + (name == spoke) * role.rewards.message
            + (name == erred) * role.rewards.error
            for name, role in self.roles.items()
        }
        return {"rewards": paid}

    def check_tasks(self, functions: Collection[str], knowledge: Collection[str]) -> None:
        """Raise TeamError where a role's tool or knowledge is in no task.

        functions, knowledge: names of all functions, and of all pieces of knowledge, of the tasks.
        """
        for role in self.roles.values():
            for name in role.tools or ():
                if name not in functions:
                    raise self.error(role.name, "tools", name, "a function of the tasks", functions)
            for name in role.knows:
                if name not in knowledge:
                    known = "a piece of the tasks' knowledge"
                    raise self.error(role.name, "knows", name, known, knowledge)

    def error(
        self, role: str, key: str, name: object, expected: str, known: Collection[str]
    ) -> TeamError:
        """Return (not raise) a TeamError about an unknown name."""
        shown = sorted(known)
        listed = ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "")
        return TeamError(
            f'team {self.name}: role "{role}": {key}: got "{name}", expected {expected}: '
            f"{listed or 'there is none'}"
        )
