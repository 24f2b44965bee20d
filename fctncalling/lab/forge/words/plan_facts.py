"""Facts of a plan that its words need: what is a folder, which results are used later."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from fctncalling.lab.forge.plan import Plan, PlannedCall, Value

_ID_KEY = re.compile(r"^(?!MA\d).*\d")  # moving averages are called MA_5
_MAKES_FOLDER = {"mkdir": "dir_name"}  # function -> the argument that names it


class PlanFacts:
    """What the words look up in a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.folders = frozenset(_folders(plan))
        self._used: dict[tuple[int, int], list[Value]] = {}
        for turn in plan.turns:
            for value in _values(turn.calls):
                if value.provenance == "result" and value.source is not None:
                    place = (value.source.turn, value.source.call)
                    self._used.setdefault(place, []).append(value)

    def kind_of(self, value: Value) -> str:
        """Return a value's kind, a destination and an entry told apart by what they are."""
        if value.kind in ("destination", "new_file"):
            return "folder" if value.value in self.folders else "new_file"
        if value.kind == "entry_name":
            return "folder" if value.value in self.folders else "file_name"
        return value.kind

    def call_turn(self, turn: int) -> int:
        """Return the turn that makes the calls which a turn's words ask for."""
        later = turn + 1
        if self.plan.turns[turn].role.startswith("request_without") and later < len(
            self.plan.turns
        ):
            return later
        return turn

    def used_results(self, turn: int, call: int) -> list[Value]:
        """Return the later arguments that come from a call's result."""
        return self._used.get((turn, call), [])

    def last_route(self, call: PlannedCall, turn: int) -> tuple[Any, Any] | None:
        """Return from where to where the flight before a call goes, None where there is none."""
        found = None
        for number in range(turn + 1):
            for each in self._calls(number, turn):
                if each is call:
                    return found
                if {"travel_from", "travel_to"} <= set(each.arguments):
                    arguments = each.arguments
                    found = arguments["travel_from"].value, arguments["travel_to"].value
        return found

    def is_latest(self, value: Value, turn: int) -> bool:
        """Tell whether no later call of the same function was made when a turn takes a value."""
        call, source = self.call_of(value), value.source
        if call is None or source is None:
            return False
        for number in range(source.turn, turn + 1):
            for index, each in enumerate(self._calls(number, turn)):
                if any(value is known for known in each.arguments.values()):
                    return True
                later = (number, index) > (source.turn, source.call)
                if later and each.function == call.function:
                    return False
        return True

    def _calls(self, number: int, now: int) -> tuple[PlannedCall, ...]:
        """Return a turn's calls; those of the turn that is worded now are requested, not made."""
        turn = self.plan.turns[number]
        return turn.requested if number == now else turn.calls

    def call_of(self, value: Value) -> PlannedCall | None:
        """Return the call whose result a value comes from."""
        source = value.source
        if value.provenance != "result" or source is None or source.turn < 0 or source.call < 0:
            return None
        turn = self.plan.turns[source.turn]
        calls = turn.calls or turn.requested
        return calls[source.call] if source.call < len(calls) else None


def result_key(function: str, path: tuple[str | int, ...]) -> str:
    """Return "function.path" with a star for each index and each key that is an id."""
    keys = ["*" if isinstance(key, int) or _ID_KEY.search(key) else key for key in path]
    return ".".join((function, *keys))


def place_in_result(text: str, path: tuple[str | int, ...]) -> tuple[int, int]:
    """Return the position of a result's item and the number of items, (0, 1) where none is."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return 0, 1
    found = (0, 1)
    for key in path:
        if isinstance(key, int) and isinstance(value, list):
            found = (key, len(value))
        elif isinstance(value, dict) and key in value and _ID_KEY.search(str(key)):
            found = (list(value).index(key), len(value))
        try:
            value = cast(Any, value)[key]
        except (KeyError, IndexError, TypeError):
            break
    return found


def _values(calls: tuple[PlannedCall, ...]) -> Iterator[Value]:
    for call in calls:
        yield from call.arguments.values()


def _folders(plan: Plan) -> Iterator[str]:
    """Yield the names of all directories that the world holds or the plan makes."""
    yield from _directories(plan.initial_config.get("GorillaFileSystem", {}).get("root", {}))
    for turn in plan.turns:
        for call in turn.calls:
            if call.function in _MAKES_FOLDER:
                yield call.arguments[_MAKES_FOLDER[call.function]].value


def _directories(entries: Mapping[str, Any]) -> Iterator[str]:
    for name, entry in entries.items():
        if isinstance(entry, Mapping) and entry.get("type") == "directory":
            yield name
            yield from _directories(entry.get("contents", {}))


def arguments_of(call: PlannedCall) -> dict[str, Any]:
    """Return a call's plain values."""
    return {name: value.value for name, value in call.arguments.items()}
