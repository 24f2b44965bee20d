"""Facts of a plan that its words need: what is a folder, which results are used later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fctncalling.forge.plan import Plan, PlannedCall, Value

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
        if value.kind == "destination":
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

    def call_of(self, value: Value) -> PlannedCall | None:
        """Return the call whose result a value comes from."""
        source = value.source
        if value.provenance != "result" or source is None or source.turn < 0 or source.call < 0:
            return None
        calls = self.plan.turns[source.turn].calls
        return calls[source.call] if source.call < len(calls) else None


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
