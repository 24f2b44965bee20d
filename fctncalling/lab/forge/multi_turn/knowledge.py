"""Values said and seen so far, by kind, with where they were met first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fctncalling.lab.forge.plan import Source, Value


@dataclass(frozen=True)
class Fact:
    """A value that somebody who read everything so far knows. `call` is -1 for the user's words."""

    kind: str
    value: Any
    turn: int
    call: int = -1
    path: tuple[str | int, ...] = ()
    origin: Value | None = None  # as an argument had it, where words said it in another form


@dataclass
class Knowledge:
    """Facts in the order they came up, newest last, and the arguments of the calls so far."""

    facts: list[Fact] = field(default_factory=list)
    calls: dict[tuple[int, int], Mapping[str, Value]] = field(default_factory=dict)

    def said(self, value: Value, turn: int) -> None:
        """Note what the words of a turn say."""
        if value.provenance == "said_now":
            items = value.value if isinstance(value.value, list) else [value.value]
            self.facts.extend(Fact(value.kind, item, turn) for item in items)
        elif value.rule in ("airport_of_city", "symbol_of_company"):
            self.facts.append(Fact(value.kind, value.value, turn, origin=value))

    def seen(self, result: Any, kinds: Mapping[str, str], turn: int, call: int) -> None:
        """Note what a result tells; `kinds` maps patterns of paths ("history.*") to kinds."""
        for path, value in leaves_with_paths(result):
            kind = kinds.get(pattern(path))
            if kind is not None:
                self.facts.append(Fact(kind, value, turn, call, path))

    def said_in(self, kind: str, turn: int) -> list[Fact]:
        """Return what the words of one turn say of a kind."""
        return [e for e in self.facts if e.kind == kind and e.call < 0 and e.turn == turn]

    def said_before(self, kind: str, turn: int) -> list[Fact]:
        """Return what the words of earlier turns say of a kind."""
        return [e for e in self.facts if e.kind == kind and e.call < 0 and e.turn < turn]

    def results(self, kind: str) -> list[Fact]:
        """Return what results tell of a kind."""
        return [each for each in self.facts if each.kind == kind and each.call >= 0]

    def last_result(self, kind: str) -> list[Fact]:
        """Return the one value of a kind that a result told last.

        None where it told several, for nobody could say which is meant.
        """
        told = self.results(kind)
        last = [each for each in told if told and _place(each) == _place(told[-1])]
        return last if len({str(each.value) for each in last}) == 1 else []


def _place(fact: Fact) -> tuple[int, int]:
    return fact.turn, fact.call


def pattern(path: tuple[str | int, ...]) -> str:
    """Return a path with "*" for each index and each key that is a number or an id."""
    return ".".join(
        "*" if isinstance(key, int) or (any(c.isdigit() for c in key) and "MA" not in key) else key
        for key in path
    )


def leaves_with_paths(
    value: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield (path, value) of every atom below, and of every key that is an id."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict) and pattern((key,)) == "*":
                yield (*path, key), key  # a table by id: its keys are values, too
            yield from leaves_with_paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves_with_paths(item, (*path, index))
    else:
        yield path, value


_REFUSALS = (
    '"error"',
    "'error'",
    "Error",
    "Stock not found",
    "Unknown",
    "00000",
    "Already",
    '_status": false',
    '"success": false',
    "No user is currently",
)


def is_failed_result(text: str) -> bool:
    """Whether a result tells that a call did not do what it was made for."""
    return any(each in text for each in _REFUSALS)


_NOTHING = re.compile(r'\[\]|\{"\w+": (\[\]|\{\}|"")\}|\{"count": 0, .*')


def is_empty_result(text: str) -> bool:
    """Whether a result tells that there is nothing to be shown: nobody would ask for that."""
    return _NOTHING.fullmatch(text) is not None


def source_of(fact: Fact) -> Source:
    """Return where a fact was met."""
    return Source(fact.turn, fact.call, fact.path)
