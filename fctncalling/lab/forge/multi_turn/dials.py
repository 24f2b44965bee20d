"""Tables of the planner: arguments, results and needs of BFCL's functions, and dials of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fctncalling.lab.forge.multi_turn.inventory import REFERENCE_KINDS

_NONE: Mapping[str, Any] = MappingProxyType({})


class FunctionTable(NamedTuple):
    """What the planner has to know of a function, a row of `functions.json`.

    A kind is narrower than a type: a price and a number of shares are both numbers, but no user
    says one for the other. A list has its elements' kind.
    """

    owner: str  # its class
    takes: Mapping[str, str]  # parameter -> kind of its values, as a person would name it
    weight: float  # among the functions of its class
    changes: bool = False  # whether it may change the compared state
    produces: Mapping[str, Any] = _NONE  # pattern of a path in its result -> kind of what is there,
    # or [the argument that decides the unit, {unit -> kind}]: of another unit it is of no kind
    cures: Mapping[str, Sequence[str]] = _NONE  # words of a refusal -> functions that may help
    seen_by: Sequence[str] = ()  # reads that its effects show in
    then: Mapping[str, float] = _NONE  # what is often asked for next -> how much it is preferred
    supplied: tuple[str, str, int, float] = ("", "", 0, 0.0)  # kind that may be looked up for it,
    # where, how often, at least with this chance
    login: str = ""  # of a login: the attribute that tells whether somebody is logged in
    room: tuple[int, float] = (1, 1.0)  # calls with its steps, preference where there is room

    def kinds_in_result(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return {pattern of a path: kind} of a result; arguments may decide the unit."""
        kinds = {
            path: kind if isinstance(kind, str) else kind[1].get(arguments[kind[0]])
            for path, kind in self.produces.items()
        }
        return {path: kind for path, kind in kinds.items() if kind}

    @property
    def made_kinds(self) -> set[str]:
        """Kinds of the things that a call adds, and that later calls can name."""
        if not self.changes:
            return set()
        return {*self.produces.values()} & (REFERENCE_KINDS - {"access_token"})

    def helpers(self, refusal: str) -> list[str]:
        """Return the functions that a refused call may succeed after, the likeliest first."""
        return [name for told, names in self.cures.items() if told in refusal for name in names]


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return found


FUNCTIONS: dict[str, FunctionTable] = {
    name: FunctionTable(owner, **row)
    for owner, rows in _read("functions.json").items()
    for name, row in rows.items()
}
FUNCTIONS_OF = {
    owner: [name for name, each in FUNCTIONS.items() if each.owner == owner]
    for owner in dict.fromkeys(each.owner for each in FUNCTIONS.values())
}


@dataclass(frozen=True)
class Dials:
    """Dials of the forge: weights that multi-turn plans are drawn by, by default like BFCL's.

    A weight of provenance says how much a source of that sort is preferred where there is one;
    `follow_up` is the chance that a request is about what an earlier call made or showed.
    """

    turns: dict[int, float] = field(
        default_factory=lambda: {1: 3.5, 2: 33, 3: 25, 4: 22, 5: 18, 6: 5.5, 7: 1}
    )
    calls: dict[int, float] = field(
        default_factory=lambda: {1: 75, 2: 20, 3: 3.5, 4: 2, 5: 1.4, 6: 0.2, 7: 0.3}
    )
    follow_up: float = 0.85
    # Longest chain of calls that change the next one's result -> share of plans kept.
    chains: dict[int, float] = field(default_factory=lambda: {1: 0.65, 2: 1.0, 3: 0.55, 4: 0.6})
    said_now: float = 0.85
    said_again: float = 1.2  # of this turn's words, once more
    said_before: float = 0.9
    result: float = 6.5
    state: float = 3.2
    inferred: float = 0.9  # said in another form: a city for an airport
    history: int = 1  # values from earlier turns and results that a plan should have
    plain: float = 0.12  # share kept of plans that have fewer
    supply: float = 0.5  # chance to look up, unasked, what an argument can be read from


HISTORY_DIALS = Dials(
    follow_up=0.95,
    history=3,
    plain=0.0,
    chains=dict.fromkeys(range(2, 9), 1.0),
    said_now=0.1,
    said_before=2.0,
    result=4.0,
    state=0.5,
    said_again=0.5,
)
"""Earlier turns and results turned up: the newest message alone says hardly enough."""

CRITICAL_DIALS = Dials(
    turns={2: 30, 3: 45, 4: 25},
    calls={1: 25, 2: 45, 3: 20, 4: 10},
    chains=dict.fromkeys(range(2, 9), 1.0),
    said_before=2.0,
    history=1,
    plain=0.0,
)
"""More calls a turn that hang together: 6 to 16 actions, of which a wrong one is seen late."""

_WEIGHTS = _read("dials.json")
CLASS_WEIGHTS: dict[tuple[str, ...], float] = {
    tuple(classes.split()): weight for classes, weight in _WEIGHTS["classes"].items()
}
"""Classes of a task -> weight."""


def class_combination_weights(apis: Sequence[str]) -> dict[tuple[str, ...], float]:
    """Return the combinations that involve no class but these; all of them if none is named."""
    if not apis:
        return CLASS_WEIGHTS
    return {names: weight for names, weight in CLASS_WEIGHTS.items() if set(names) <= set(apis)}


ANCHORS: dict[str, list[tuple[str, int, float]]] = _WEIGHTS["anchors"]
"""Class -> what most of its tasks are about: function, calls it takes, chance."""
OF_CURRENT_FOLDER = ("du", "find", "ls", "pwd")
"""Functions that tell of the folder in which they are called."""
MADE_BY_CALLS = frozenset({"order_id", "booking_id", "tweet_id", "ticket_id"})
"""Kinds of which people know the number less often than the thing, which calls make."""
NEW_KINDS: dict[str, str] = _WEIGHTS["new_kinds"]
"""Kind of something new -> what it is from then on."""
TELLING = (REFERENCE_KINDS - {"access_token"}) | frozenset(_WEIGHTS["told_measures"])
"""Kinds of which the same value tells that two calls have to do with each other."""
BLANK_KINDS = frozenset(_WEIGHTS["left_out"].split())
"""Kinds of which nobody could guess the value that a request leaves out."""
