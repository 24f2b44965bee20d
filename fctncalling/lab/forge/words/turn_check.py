"""Check that a turn's words carry the values that its plan says they carry, and no others.

The check reads the text with its own rules, not with the writer's: numbers, dates and texts are
looked for as a reader would recognise them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, cast

from fctncalling.lab.forge.forged_entry import atoms
from fctncalling.lab.forge.plan import Plan, PlannedCall, PlannedTurn, Value, parse_result
from fctncalling.lab.own_api.english import days_in_text, read_day

_NUMBER = re.compile(r"(?<![\w.])-?\$?-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
_FIRST_CLASS = re.compile(r"\bfirst[ -]class\b")
_ALONE = re.compile(r"\bsingle\b")  # "the single last line"
_HERE = re.compile(r"\b(?:this|current|working) (?:directory|folder)\b|\b(?:in|over|right) here\b")
OF_CURRENT_FOLDER = ("du", "find", "ls", "pwd")
_UNSAID_LENGTH = 3  # shorter values occur by chance


def faults_of(text: str, turn: PlannedTurn) -> list[str]:
    """Return the faults of a turn's words, one line each; empty if they are true."""
    if turn.role == "function_returns":
        return [] if text == "" else ["a turn in which a function returns has no words"]
    if turn.role == "missing_value" and turn.blank is not None:
        index, argument = turn.blank
        value = turn.requested[index].arguments[argument]
        return [] if says_value(text, value) else [f"{argument}={value.value!r} is not said"]
    return [*_unsaid(text, turn), *_said_too_much(text, turn), *_elsewhere(text, turn)]


def _unsaid(text: str, turn: PlannedTurn) -> Iterator[str]:
    for index, call in enumerate(turn.requested):
        for argument, value in call.arguments.items():
            if (index, argument) == turn.blank:
                continue
            if must_be_said(value) and not says_value(text, value):
                yield f"{call.function}: {argument}={value.value!r} is not said"


def _elsewhere(text: str, turn: PlannedTurn) -> Iterator[str]:
    """Yield mentions of the current folder that the plan leaves unmentioned."""
    for step, call in pairwise(turn.requested):
        if step.function == "cd" and step.purpose == "needed_step":
            if call.function in OF_CURRENT_FOLDER:
                yield f"{call.function} is of another folder, which is not said"
            elif _HERE.search(text):
                yield "the current folder is meant, but another one has to be entered"


def _said_too_much(text: str, turn: PlannedTurn) -> Iterator[str]:
    values = list(_values(turn))
    rest = _without(text, [value for value in values if must_be_said(value)], turn)
    for value in values:
        known = value.provenance in ("said_before", "result", "state")
        if known and value.value != "first" and _names(rest, value.value):
            yield f"{value.kind} {value.value!r} is said, but comes from {value.provenance}"
    if turn.blank is not None and turn.role == "request_without_value":
        index, argument = turn.blank
        left_out = turn.requested[index].arguments[argument]
        if must_be_said(left_out) and says_value(text, left_out):
            yield f"{argument}={left_out.value!r} is said, but should be left out"


def _values(turn: PlannedTurn) -> Iterator[Value]:
    for index, call in enumerate(turn.requested):
        for argument, value in call.arguments.items():
            if (index, argument) != turn.blank or turn.role != "request_without_value":
                yield value


def must_be_said(value: Value) -> bool:
    """Tell whether the words of a turn have to carry a value."""
    return value.provenance == "said_now" or (
        value.provenance == "inferred" and value.said is not None
    )


def says_value(text: str, value: Value) -> bool:
    """Tell whether a value can be read in a text, in the form that the plan asks for."""
    said = value.value if value.provenance == "said_now" else value.said
    if value.kind == "travel_class" and said == "first":  # not "the first city"
        return _FIRST_CLASS.search(text) is not None
    return text_mentions(text, said)


def text_mentions(text: str, said: Any) -> bool:
    """Tell whether a text says a literal.

    A number as a number, a date as a date, a list item by item, anything else letter by letter.
    """
    if isinstance(said, dict):
        return all(text_mentions(text, each) for each in said.values())
    if isinstance(said, list | tuple):
        return all(text_mentions(text, each) for each in said)
    if isinstance(said, bool):
        return True
    if isinstance(said, int | float):
        return any(number == said for number in numbers_in_text(text))
    day = read_day(str(said))
    if day is not None and day in days_in_text(text):
        return True
    word = str(said)
    return any(
        holds_words(text, form) for form in (word, word.replace("_", " "), word.capitalize())
    )


def numbers_in_text(text: str) -> Iterator[float]:
    """Yield the numbers that a text writes in digits."""
    for found in _NUMBER.finditer(text):
        yield float(found[0].replace("$", "").replace(",", ""))
    if _ALONE.search(text):
        yield 1.0


def holds_words(text: str, said: str) -> bool:
    """Tell whether a text holds a string as a whole word or words."""
    begin, end = (
        r"(?<!\w)" * bool(re.match(r"\w", said)),
        r"(?!\w)" * bool(re.search(r"\w$", said)),
    )
    return said != "" and said in text and bool(re.search(f"{begin}{re.escape(said)}{end}", text))


def _without(text: str, said: list[Value], turn: PlannedTurn) -> str:
    """Return a text without the values that it rightly says."""
    words = [value.value if value.provenance == "said_now" else value.said for value in said]
    for word in sorted(map(str, atoms(words)), key=len, reverse=True):
        text = text.replace(word, " ") if word else text
    return text


def _names(text: str, value: Any) -> bool:
    """Tell whether a text names a value that it should only point at."""
    for each in atoms(value):
        if isinstance(each, bool | None) or len(str(each)) < _UNSAID_LENGTH:
            continue
        if isinstance(each, int | float):
            if any(number == each for number in numbers_in_text(text)):
                return True
        elif holds_words(text, each):
            return True
    return False


_ID_KEY = re.compile(r"^(?!MA\d).*\d")  # moving averages are called MA_5


class PlanFacts:
    """Facts of a plan that the words look up."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.folders = frozenset(_folders(plan))
        self._used: dict[tuple[int, int], list[Value]] = {}
        for value in plan.values:
            if value.provenance == "result" and value.source is not None:
                place = (value.source.turn, value.source.call)
                self._used.setdefault(place, []).append(value)

    def kind_of(self, value: Value) -> str:
        """Return a value's kind; a destination or entry is a folder or a file."""
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
        """Return the route of the flight before a call, None if there is none."""
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
        """Return the call with the result that a value comes from."""
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
    """Return the position of a result's item and the number of items, (0, 1) for no item."""
    value = parse_result(text)
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


def _folders(plan: Plan) -> Iterator[str]:
    """Yield the names of all directories that the world holds or the plan makes."""
    yield from _directories(plan.initial_config.get("GorillaFileSystem", {}).get("root", {}))
    for call in plan.calls:
        if call.function == "mkdir":
            yield call.arguments["dir_name"].value


def _directories(entries: Mapping[str, Any]) -> Iterator[str]:
    for name, entry in entries.items():
        if isinstance(entry, Mapping) and entry.get("type") == "directory":
            yield name
            yield from _directories(entry.get("contents", {}))


def arguments_of(call: PlannedCall) -> dict[str, Any]:
    """Return a call's plain values."""
    return {name: value.value for name, value in call.arguments.items()}
