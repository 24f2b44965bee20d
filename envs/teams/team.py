"""Team: its roles with views, knowledge and tools, and the order in which they speak."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fctncalling.envs.errors import import_extra

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
    """Error of an invalid team; it names the team, the field and what was expected."""


@dataclass(frozen=True)
class RoleRewards:
    """Rewards of one role: its share of the team's, and the price of its messages and errors."""

    team: float = 1.0  # times the environment's reward
    message: float = 0.0  # for each message of the role's own
    error: float = 0.0  # for each of them whose calls failed or could not be read


@dataclass(frozen=True)
class TeamRole:
    """Role of a team: instructions, visible messages, knowledge and tools.

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
        """Whether the role may call any tool."""
        return self.tools is None or bool(self.tools)

    def may_call(self, function: str) -> bool:
        """Whether the role may call this function."""
        return self.tools is None or function in self.tools


@dataclass(frozen=True)
class ForwardingRule:
    """Rule that passes a role's message on if it contains a word, or always."""

    role: str
    word: str = ""

    def applies(self, role: str, text: str) -> bool:
        """Whether this message of this role is passed on."""
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
    answer: ForwardingRule
    approval: ForwardingRule | None = None
    max_messages: int = 20

    @property
    def has_role_rewards(self) -> bool:
        """Whether some role has rewards other than the team's."""
        return any(role.rewards != RoleRewards() for role in self.roles.values())

    def rewards_info(self, reward: float, spoke: str, erred: str | None) -> dict[str, Any]:
        """Return {"rewards": reward of each role} if they differ, else {}.

        reward: the environment's. spoke: who acted. erred: whose calls failed, if any did.
        """
        if not self.has_role_rewards:
            return {}
        paid = {
            name: role.rewards.team * reward
            + (name == spoke) * role.rewards.message
            + (name == erred) * role.rewards.error
            for name, role in self.roles.items()
        }
        return {"rewards": paid}

    def check_tasks(self, functions: Collection[str], knowledge: Collection[str]) -> None:
        """Raise TeamError if a tool or knowledge of a role is in no task.

        functions, knowledge: names of all functions, and of all pieces of knowledge, of the tasks.
        """
        for role in self.roles.values():
            for name in role.tools or ():
                if name not in functions:
                    raise self.unknown_name_error(
                        role.name, "tools", name, "a function of the tasks", functions
                    )
            for name in role.knows:
                if name not in knowledge:
                    expected = "a piece of the tasks' knowledge"
                    raise self.unknown_name_error(role.name, "knows", name, expected, knowledge)

    def unknown_name_error(
        self, role: str, key: str, name: object, expected: str, known: Collection[str]
    ) -> TeamError:
        """Make a TeamError of an unknown name; the caller raises it."""
        shown = sorted(known)
        listed = ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "")
        return TeamError(
            f'team {self.name}: role "{role}": {key}: got "{name}", expected {expected}: '
            f"{listed or 'there is none'}"
        )


_TEAM_KEYS = ("roles", "turn_order", "answer", "approval", "max_messages")
_ROLE_KEYS = ("instructions", "sees", "knows", "tools", "rewards")
_REWARD_KEYS = ("team", "message", "error")


def load_team(source: str | Path) -> Team:
    """Load a team by its built-in name, or from a JSON or YAML file.

    Raises TeamError naming the file and the field.
    """
    if source in BUILT_IN_TEAMS:
        return parse_team(_content(Path(__file__).parent / f"{source}.json"), str(source))
    path = Path(source)
    if path.suffix not in (".json", ".yaml", ".yml"):
        names = ", ".join(BUILT_IN_TEAMS)
        raise TeamError(f'team "{source}": expected a .json or .yaml file, or one of {names}')
    return parse_team(_content(path), str(path))


def parse_team(content: Any, name: str) -> Team:
    """Parse a team from a file's content; `name` appears in errors."""
    _check_keys(content, _TEAM_KEYS, f"team {name}", needed=("roles", "turn_order", "answer"))
    entries = content["roles"]
    if not isinstance(entries, Mapping) or not entries:
        raise TeamError(f"team {name}: roles: got {entries!r:.60}, expected roles by name")
    known = [str(role) for role in entries]
    if reserved := {USER, TOOL}.intersection(known):
        raise TeamError(
            f'team {name}: roles: "{min(reserved)}" is no name of a role: it stands for messages '
            "of the user and results of calls"
        )
    order = _names(content["turn_order"], f"team {name}: turn_order")
    if not order:
        raise TeamError(f"team {name}: turn_order is empty: expected roles ({', '.join(known)})")
    _check_known(order, known, f"team {name}: turn_order")
    most = content.get("max_messages", 20)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise TeamError(
            f"team {name}: max_messages: got {most!r}, expected a whole number of at least 1"
        )
    approval = content.get("approval")
    team = Team(
        name,
        {role: _role(role, entry, known, name) for role, entry in entries.items()},
        order,
        _passing(content["answer"], known, f"team {name}: answer"),
        None if approval is None else _passing(approval, known, f"team {name}: approval"),
        most,
    )
    _check_reachable(team)
    return team


def _role(role: str, entry: Any, names: Sequence[str], team: str) -> TeamRole:
    place = f'team {team}: role "{role}"'
    _check_keys(entry, _ROLE_KEYS, place)
    sees = _names(entry.get("sees", [USER]), f"{place}: sees")
    _check_known(sees, (USER, TOOL, *names), f"{place}: sees")
    tools = entry.get("tools", [])
    rewards = entry.get("rewards", {})
    _check_keys(rewards, _REWARD_KEYS, f"{place}: rewards")
    for key, value in rewards.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TeamError(f"{place}: rewards: {key}: got {value!r:.60}, expected a number")
    instructions = entry.get("instructions", "")
    if not isinstance(instructions, str):
        raise TeamError(f"{place}: instructions: got {instructions!r:.60}, expected a text")
    return TeamRole(
        role,
        instructions,
        sees,
        _names(entry.get("knows", []), f"{place}: knows"),
        None if tools == ALL_TOOLS else _names(tools, f"{place}: tools"),
        RoleRewards(**{key: float(value) for key, value in rewards.items()}),
    )


def _passing(entry: Any, names: Sequence[str], place: str) -> ForwardingRule:
    """Parse a forwarding rule: a role's name, or {"role": ..., "word": ...}."""
    if isinstance(entry, str):
        entry = {"role": entry}
    _check_keys(entry, ("role", "word"), place, needed=("role",))
    _check_known([entry["role"]], names, place)
    word = entry.get("word", "")
    if not isinstance(word, str):
        raise TeamError(f"{place}: word: got {word!r:.60}, expected a text")
    return ForwardingRule(entry["role"], word)


def _check_reachable(team: Team) -> None:
    """Raise TeamError if a role never speaks, or the one that answers or approves does not."""
    for role in team.roles:
        if role not in team.turn_order:
            raise TeamError(
                f'team {team.name}: role "{role}" is not in turn_order '
                f"({', '.join(team.turn_order)}), so it would never speak"
            )
    if team.approval is not None and team.approval.role == team.answer.role:
        raise TeamError(
            f'team {team.name}: approval: got "{team.approval.role}", expected another role than '
            "the one that answers"
        )


def _names(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise TeamError(f"{place}: got {value!r:.60}, expected a list of names")
    return tuple(value)


def _check_known(names: Collection[Any], known: Collection[str], place: str) -> None:
    for name in names:
        if name not in known:
            raise TeamError(f'{place}: got "{name}", expected {", ".join(known)}')


def _check_keys(
    entry: Any, known: Collection[str], place: str, *, needed: Collection[str] = ()
) -> None:
    if not isinstance(entry, Mapping):
        raise TeamError(f"{place}: got {entry!r:.60}, expected an object with {', '.join(known)}")
    for key in entry:
        if key not in known:
            raise TeamError(f'{place}: unknown field "{key}", expected {", ".join(known)}')
    for key in needed:
        if key not in entry:
            raise TeamError(f'{place}: "{key}" is missing')


def _content(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise TeamError(f"team {path}: cannot be read: {reason}") from None
    try:
        if path.suffix == ".json":
            return json.loads(text)
        yaml = import_extra("yaml", "train", f"team {path}")
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(error) from None
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise TeamError(f"team {path}: cannot be parsed: {reason}") from None
