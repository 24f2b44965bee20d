"""Phrases for parts of a result: by their key, by their place in a list."""

from __future__ import annotations

import re
from dataclasses import replace

from fctncalling.lab.forge.plan import PlannedCall, Source
from fctncalling.lab.forge.words.discourse import ORDINALS
from fctncalling.lab.forge.words.grammar import Sequence

_CAPITAL = re.compile(r"([A-Z]+)")


def known_earlier(call: PlannedCall, turn: int) -> PlannedCall:
    """Return a call of an earlier turn: its values are pointed at, not named again."""
    arguments = {
        name: replace(value, provenance="said_before", said=None, source=Source(turn))
        if value.provenance in ("said_now", "inferred") and value.said is not None
        else value
        for name, value in call.arguments.items()
    }
    return replace(call, arguments=arguments)


def plain_ways(path: tuple[str | int, ...]) -> tuple[Sequence, ...]:
    """Return "the battery voltage you showed me": a result's part by its key."""
    keys = [key for key in path if isinstance(key, str)]
    name = _CAPITAL.sub(r" \1", keys[-1]).lower().replace("_", " ") if keys else "*"
    if name == "*":
        return (("those values",), ("the values you showed me",), ("those figures",))
    name = keys[-1] if name.startswith(" ") else name
    return ((f"the {name} you showed me",), (f"the {name} you found",), (f"that {name}",))


def ordinal(index: int, count: int) -> str:
    if count == 1:
        return "only"
    return "last" if index == count - 1 else ORDINALS[min(index, len(ORDINALS) - 1)]
