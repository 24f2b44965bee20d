"""Moves of BFCL's functions: what cures their refusals, what kinds their results hold.

`moves.json` is what `tests/support/probed_moves.py` learns from our own tools; measures (any
number would do, so probing cannot tell them apart) are named here by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fctncalling.lab.forge.multi_turn.kinds import PARAMETER_KINDS
from fctncalling.lab.forge.multi_turn.knowledge import parse_result
from fctncalling.lab.forge.multi_turn.worlds.inventory import REFERENCE_KINDS

TABLE = Path(__file__).with_name("moves.json")
_MEASURES: dict[str, dict[str, str]] = {
    "get_stock_info": {"price": "price", "MA(5)": "number", "MA(20)": "number"},
    "get_order_details": {"price": "price", "amount": "share_count"},
    "get_account_info": {"balance": "amount"},
    "wc": {"count": "count"},
    "displayCarStatus": {"fuelLevel": "gallons", "batteryVoltage": "number"},
    "fillFuelTank": {"fuelLevel": "gallons"},
    "check_tire_pressure": {
        f"{side}TirePressure": "pressure"
        for side in ("frontLeft", "frontRight", "rearLeft", "rearRight")
    },
    "liter_to_gallon": {"gallon": "gallon"},
    "gallon_to_liter": {"liter": "liters"},
    "estimate_distance": {"distance": "kilometers"},
    "get_outside_temperature_from_google": {"outsideTemperature": "temperature"},
    "compute_exchange_rate": {"exchanged_value": "exchanged"},
    "get_flight_cost": {"travel_cost_list.*": "amount"},
    "get_credit_card_balance": {"card_balance": "amount"},
    "retrieve_invoice": {"invoice.travel_cost": "amount"},
    "find_nearest_tire_shop": {"shopLocation": "place"},
    "cat": {"file_content": "text"},
    "tail": {"last_lines": "text"},
    "sort": {"sorted_content": "text"},
    "grep": {"matching_lines.*": "text"},
    "get_tweet": {"content": "text"},
    "get_ticket": {"description": "text"},
    "search_messages": {"results.*.message": "text"},
    "notify_price_change": {"notification": "text"},
    "contact_customer_support": {},
    **{name: {"result": "number"} for name in PARAMETER_KINDS["MathAPI"]},
}
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

    def shapes(self, function: str) -> list[str]:
        """Return the shapes of a function's results."""
        found: list[str] = self._learned.get(function, {}).get("shapes", [])
        return found

    def cures(self, function: str, refusal: str) -> list[str]:
        """Return the functions that a refused call may succeed after, the likeliest first."""
        entry = self._learned.get(function, {})
        found: list[str] = entry.get("cures", {}).get(refusal_signature(refusal), [])
        return found

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
        found: list[str] = self._learned.get(function, {}).get("seen_by", [])
        return found


def refusal_signature(refusal: str) -> str:
    """Return an error without the values in it, cut short: the same for all of its sort.

    "" for a result that is no error.
    """
    data = parse_result(refusal)
    data = data[0] if isinstance(data, list) and data else data
    text = str(data.get("error", "")) if isinstance(data, dict) else str(data)
    text = re.sub(r"'[^']*'|\S*\d\S*", "_", text.split("Here ", 1)[0])
    return " ".join(text.replace(".", "").replace(":", "").split()[:7])


def result_shape(result: str) -> str:
    """Return the keys of a result, or its type: texts of two shapes are never the same."""
    data = parse_result(result)
    return " ".join(map(str, data)) if isinstance(data, dict) else type(data).__name__


@lru_cache(maxsize=1)
def function_moves() -> FunctionMoves:
    """Return the moves of BFCL's functions, as they were probed."""
    return FunctionMoves(json.loads(TABLE.read_text("utf-8")))
