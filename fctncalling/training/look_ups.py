"""Look-ups of a demonstration: calls that show a value which the ground truth takes for granted.

BFCL's truths know the state of the tools. One who plays them has to ask for what nobody has said;
demonstrated without a look-up, such a value teaches to guess. A look-up changes no state, and the
verdicts allow more results than the truth's.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from fctncalling.data.types import Call
from fctncalling.envs.tools import bfcl_table

COMPANIES: dict[str, str] = {
    symbol: name for name, symbol in bfcl_table("trading_bot")["symbol_map"].items()
}
"""Symbol of a stock -> name of the company, of those that TradingBot knows by name."""


def needed_look_up(call: Call, heard: str, offered: Collection[str]) -> Call | None:
    """Return the look-up that a call needs; None where all is known, or no function tells.

    heard: all that users said and tools returned; offered: names of the functions on offer.
    """
    if call.name == "fillFuelTank":
        amount = f"{call.arguments.get('fuelAmount', 0):g}"
        is_known = stands_in(amount, heard) or "fuelLevel" in heard
        look_up = Call("displayCarStatus", {"option": "fuel"})
    else:
        symbol = call.arguments.get("symbol", call.arguments.get("stock"))
        company = COMPANIES.get(symbol) if isinstance(symbol, str) else None
        is_known = company is None or company not in heard or stands_in(str(symbol), heard)
        look_up = Call("get_symbol_by_name", {"name": company})
    return None if is_known or look_up.name not in offered else look_up


def stands_in(word: str, text: str) -> bool:
    """Return whether a word or number stands in a text by itself, not as a part of another."""
    return re.search(rf"(?<![\w.]){re.escape(word)}(?!\w|\.\d)", text) is not None
