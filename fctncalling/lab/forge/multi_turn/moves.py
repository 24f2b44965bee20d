"""Moves of BFCL's functions: what cures their refusals, what kinds their results hold.

`moves.json` is what `tests/support/probed_moves.py` learns from our own tools; measures (any
number would do, so probing cannot tell them apart) are named by hand in `measures.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
    """Table of what cures each function's refusals and of the kinds that its results hold."""

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
        """Whether a call of the function may change what is compared."""
        return bool(self._learned.get(function, {}).get("changes", False))

    def makes_something(self, function: str) -> bool:
        """Whether a call adds a thing that later calls can name: nobody does that unasked."""
        return self.changes_state(function) and bool(
            set(self._produces[function].values()) & (REFERENCE_KINDS - {"access_token"})
        )

    def reads_affected_by(self, function: str) -> list[str]:
        """Return the reads whose results a call of the function may change."""
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
