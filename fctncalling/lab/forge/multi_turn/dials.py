"""Tables of the planner: arguments, results and needs of BFCL's functions, and dials of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fctncalling.lab.forge.multi_turn.inventory import REFERENCE_KINDS

PARAMETER_KINDS: dict[str, dict[str, dict[str, str]]] = json.loads(
    Path(__file__).with_name("kinds.json").read_text(encoding="utf-8")
)
"""Class -> function -> parameter -> kind of its values, as a person would name it.

A kind is narrower than a type: a price and a number of shares are both numbers, but no user says
one for the other. A list has its elements' kind.
"""


_MOVES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("moves.json").read_text(encoding="utf-8")
)
"""Function -> what it does: `changes` the compared state, `produces` kinds at paths of its result,
`cures` by other functions for what its refusals tell, reads that its effects are `seen_by`.
"""
_UNIT_DECIDERS: dict[str, tuple[str, str, dict[str, str]]] = {
    "compute_exchange_rate": ("target_currency", "exchanged_value", {"USD": "exchanged"}),
    "imperial_si_conversion": ("unit_out", "result", {"miles": "miles", "km": "kilometers"}),
    "si_unit_conversion": ("unit_out", "result", {"km": "kilometers"}),
}
"""Function -> (argument that decides the unit of the result, path in the result, unit -> kind). Of
another unit the result is of no kind: no later call takes it for what it is not.
"""
KINDS_OF = {name: kinds for table in PARAMETER_KINDS.values() for name, kinds in table.items()}
CLASS_OF = {name: owner for owner, names in PARAMETER_KINDS.items() for name in names}


def kinds_in_result(function: str, arguments: Mapping[str, Any]) -> Mapping[str, str]:
    """Return {pattern of a path: kind} of a call's result: its arguments may decide the unit."""
    produced: Mapping[str, str] = _MOVES.get(function, {}).get("produces", {})
    if (decider := _UNIT_DECIDERS.get(function)) is None:
        return produced
    name, path, kinds = decider
    kind = kinds.get(arguments[name])
    return {path: kind} if kind else {}


def produced_kinds(function: str) -> set[str]:
    """Return the kinds of values that results of a function may hold."""
    return set(_MOVES.get(function, {}).get("produces", {}).values())


def cures(function: str, refusal: str) -> list[str]:
    """Return the functions that a refused call may succeed after, the likeliest first."""
    table = _MOVES.get(function, {}).get("cures", {})
    return [name for told, names in table.items() if told in refusal for name in names]


def changes_state(function: str) -> bool:
    """Whether a call of the function may change the compared state."""
    return bool(_MOVES.get(function, {}).get("changes", False))


def makes_something(function: str) -> bool:
    """Whether a call adds a thing that later calls can name: nobody does that unasked."""
    return changes_state(function) and bool(
        produced_kinds(function) & (REFERENCE_KINDS - {"access_token"})
    )


def reads_affected_by(function: str) -> list[str]:
    """Return the reads that a call of the function may affect."""
    return list(_MOVES.get(function, {}).get("seen_by", ()))


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
    plain: float = 0.16  # share kept of plans that have fewer
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


_WEIGHTS: dict[str, Any] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
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
ANCHOR_ROOM = {name: room for each in ANCHORS.values() for name, room, _ in each}
FOLLOW_UPS: dict[str, dict[str, float]] = _WEIGHTS["follow_ups"]
"""Function -> what is often asked for next, and how much it is preferred."""
SUPPLIED: dict[str, tuple[str, str, int, float]] = _WEIGHTS["supplied"]
"""Function -> what may be looked up for it, where, how often, at least with this chance."""
FUNCTION_WEIGHTS: dict[str, float] = _WEIGHTS["functions"]
"""Function -> weight among its class's; 1 where not listed."""
LOGINS: dict[str, str] = _WEIGHTS["logins"]
"""Login -> the attribute that tells whether somebody is logged in."""
ROOMY: dict[str, tuple[int, float]] = _WEIGHTS["roomy"]
"""Function -> calls it takes with its steps, how much it is preferred where there is room."""
OF_CURRENT_FOLDER = ("du", "find", "ls", "pwd")
"""Functions that tell of the folder in which they are called."""
NEW_KINDS: dict[str, str] = _WEIGHTS["new_kinds"]
"""Kind of something new -> what it is from then on."""
TOLD_MEASURES = frozenset(_WEIGHTS["told_measures"])
"""Measures of which the same value tells that two calls have to do with each other."""
BLANK_KINDS = frozenset(_WEIGHTS["left_out"].split())
"""Kinds of which nobody could guess the value that a request leaves out."""
