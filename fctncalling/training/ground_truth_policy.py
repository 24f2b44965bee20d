"""GroundTruthPolicy: how the ground truth of a task is demonstrated, message by message."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from fctncalling.data.types import Call, Task
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.tools import load_bfcl_table
from fctncalling.evaluation.scripted_policies import (
    DONE,
    ONE_CALL_A_STEP,
    PolicyInput,
    oracle,
    render,
)

NO_CALL = "I call no function: none of them fits."
"""What it answers to a request that no function serves."""
MISSING_VALUE = "I call no function yet: something that it needs is missing."
"""What it answers where a user tells the missing value in a later turn, unasked."""
COMPANIES: dict[str, str] = {
    symbol: name for name, symbol in load_bfcl_table("trading_bot")["symbol_map"].items()
}
"""Symbol of a stock -> name of the company, of those that TradingBot knows by name."""


class GroundTruthPolicy:
    """Policy that plays the ground truth, as one who does not know it could.

    A call of a turn waits for the results of those before it where it takes a value that was
    neither said nor shown so far and stands in no function's documentation. In one message with
    them it would teach to guess what a result is about to tell. Where no result of the truth tells
    a value, a look-up comes first.
    """

    def __init__(self) -> None:
        self._left: list[Call] = []  # calls of this turn that are still to be made
        self._look_ups: list[Call] = []  # of this turn; none is made twice

    def __call__(self, situation: PolicyInput) -> str:
        """Return the next message; in words where a request is answered by no call.

        ValueError if the calls cannot be written.
        """
        if not _takes_turns(situation.task):
            return _shown(situation, oracle(situation))
        if situation.step_in_turn == 0:
            turns = oracle_calls(situation.task)
            self._left = list(turns[situation.turn]) if situation.turn < len(turns) else []
            self._look_ups = []
        if not self._left:
            return _shown(situation, DONE)
        offered = [tool["function"]["name"] for tool in situation.tools]
        needed = [prerequisite_lookup(call, situation.heard, offered) for call in self._left]
        look_up = needed[0]
        if look_up is not None and look_up not in self._look_ups:
            self._look_ups.append(look_up)
            return render(situation, [look_up])
        known = situation.heard + json.dumps(list(situation.tools), ensure_ascii=False)
        number = 1
        while number < len(self._left) and not needed[number]:
            if not _is_known(self._left[number], known):
                break
            number += 1
        calls, self._left = self._left[:number], self._left[number:]
        return render(situation, calls)


def _takes_turns(task: Task) -> bool:
    return task.is_multi_turn and task.kind != "clarify" and not task.extra.get(ONE_CALL_A_STEP)


def _shown(situation: PolicyInput, text: str) -> str:
    if text != DONE or situation.step_in_turn:
        return text
    return MISSING_VALUE if situation.task.category.endswith("miss_param") else NO_CALL


def prerequisite_lookup(call: Call, heard: str, offered: Collection[str]) -> Call | None:
    """Return the look-up that must precede a call; None where all is known, or no function tells.

    BFCL's truths know the state of the tools. One who plays them has to ask for what nobody has
    said: demonstrated without a look-up, such a value teaches to guess. A look-up changes no state,
    and verdicts allow more results than the truth's.

    heard: all that users said and tools returned; offered: names of the functions on offer.
    """
    if call.name == "fillFuelTank":
        amount = f"{call.arguments.get('fuelAmount', 0):g}"
        is_known = occurs_as_word(amount, heard) or "fuelLevel" in heard
        look_up = Call("displayCarStatus", {"option": "fuel"})
    else:
        symbol = call.arguments.get("symbol", call.arguments.get("stock"))
        company = COMPANIES.get(symbol) if isinstance(symbol, str) else None
        is_known = company is None or company not in heard or occurs_as_word(str(symbol), heard)
        look_up = Call("get_symbol_by_name", {"name": company})
    return None if is_known or look_up.name not in offered else look_up


def occurs_as_word(word: str, text: str) -> bool:
    """Whether a word or number occurs in a text by itself, not as a part of another."""
    return re.search(rf"(?<![\w.]){re.escape(word)}(?!\w|\.\d)", text) is not None


def _is_known(call: Call, known: str) -> bool:
    """Return whether each value of a call stands in the text, as a word of its own."""
    return all(
        occurs_as_word(word, known) for value in call.arguments.values() for word in _words(value)
    )


def _words(value: Any) -> Iterator[str]:
    """Yield how the parts of a value are written; none for what can be guessed: true, false."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _words(each)
    elif isinstance(value, float) and value.is_integer():
        yield str(int(value))
    elif value is not None and not isinstance(value, bool):
        yield str(value)
