"""Tables of the planner: arguments, results and needs of BFCL's functions, and dials of a plan.

`moves.json` is what `tests/support/probed_moves.py` learns from our own tools; measures (any
number would do, so probing cannot tell them apart) are named by hand in `measures.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from fctncalling.lab.forge.multi_turn.inventory import REFERENCE_KINDS
from fctncalling.lab.forge.plan import parse_result

PARAMETER_KINDS: dict[str, dict[str, dict[str, str]]] = json.loads(
    Path(__file__).with_name("kinds.json").read_text(encoding="utf-8")
)
"""Class -> function -> parameter -> kind of its values, as a person would name it.

A kind is narrower than a type: a price and a number of shares are both numbers, but no user says
one for the other. A list has its elements' kind.
"""


TABLE = Path(__file__).with_name("moves.json")
_MEASURES: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("measures.json").read_text(encoding="utf-8")
) | {name: {"result": "number"} for name in PARAMETER_KINDS["MathAPI"]}
_UNIT_DECIDERS: dict[str, tuple[str, str, dict[str, str]]] = {
    "compute_exchange_rate": ("target_currency", "exchanged_value", {"USD": "exchanged"}),
    "imperial_si_conversion": ("unit_out", "result", {"miles": "miles", "km": "kilometers"}),
    "si_unit_conversion": ("unit_out", "result", {"km": "kilometers"}),
}
"""Function -> (argument that decides the unit of the result, path in the result, unit -> kind). Of
another unit the result is of no kind: no later call takes it for what it is not.
"""
CLASS_OF = {name: owner for owner, names in PARAMETER_KINDS.items() for name in names}


class FunctionMoves:
    """Table of the cures for each function's refusals and of the kinds in its results."""

    def __init__(self, learned: Mapping[str, Mapping[str, Any]]) -> None:
        self._learned = learned
        self._produces = {
            name: {**learned.get(name, {}).get("produces", {}), **_MEASURES.get(name, {})}
            for name in CLASS_OF
        }

    def produced_kinds(self, function: str) -> Mapping[str, str]:
        """Return {pattern of a path in the result: kind} of a function."""
        return self._produces[function]

    def kinds_in_result(self, function: str, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the kinds that a call's result holds: its arguments may decide the unit."""
        decider = _UNIT_DECIDERS.get(function)
        if decider is None:
            return self.produced_kinds(function)
        name, path, kinds = decider
        kind = kinds.get(arguments[name])
        return {path: kind} if kind else {}

    def cures(self, function: str, refusal: str) -> list[str]:
        """Return the functions that a refused call may succeed after, the likeliest first."""
        cures = self._learned.get(function, {}).get("cures", {})
        return list(cures.get(refusal_signature(refusal), ()))

    def changes_state(self, function: str) -> bool:
        """Whether a call of the function may change the compared state."""
        return bool(self._learned.get(function, {}).get("changes", False))

    def makes_something(self, function: str) -> bool:
        """Whether a call adds a thing that later calls can name: nobody does that unasked."""
        return self.changes_state(function) and bool(
            set(self._produces[function].values()) & (REFERENCE_KINDS - {"access_token"})
        )

    def reads_affected_by(self, function: str) -> list[str]:
        """Return the reads that a call of the function may affect."""
        return list(self._learned.get(function, {}).get("seen_by", ()))


def refusal_signature(refusal: str) -> str:
    """Return an error without the values in it, cut short: the same for all of its sort.

    "" for a result that is no error.
    """
    data = parse_result(refusal)
    data = data[0] if isinstance(data, list) and data else data
    text = str(data.get("error", "")) if isinstance(data, dict) else str(data)
    text = re.sub(r"'[^']*'|\S*\d\S*", "_", text.split("Here ", 1)[0])
    return " ".join(text.replace(".", "").replace(":", "").split()[:7])


@lru_cache(maxsize=1)
def function_moves() -> FunctionMoves:
    """Return the moves of BFCL's functions, as they were probed."""
    return FunctionMoves(json.loads(TABLE.read_text("utf-8")))


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
OPPOSITES: dict[str, str] = _WEIGHTS["opposites"]
"""Function -> the one that it undoes."""
SETTINGS = frozenset(_WEIGHTS["settings"])
"""Functions that set something which few people change twice."""
NEVER_UNASKED = frozenset(_WEIGHTS["never_unasked"])
"""Functions that would help, but nobody wants them unasked."""
OF_CURRENT_FOLDER = ("du", "find", "ls", "pwd")
"""Functions that tell of the folder in which they are called."""
NEW_KINDS: dict[str, str] = _WEIGHTS["new_kinds"]
"""Kind of something new -> what it is from then on."""
ALIKE: dict[str, str] = _WEIGHTS["alike"]
"""Kind -> what else its values may stand for."""
TOLD_MEASURES = frozenset(_WEIGHTS["told_measures"])
"""Measures of which the same value tells that two calls have to do with each other."""
BLANK_KINDS = frozenset(_WEIGHTS["left_out"].split())
"""Kinds of which nobody could guess the value that a request leaves out."""
