"""Categories the forge makes, their makers and their shares of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from fctncalling.lab.forge import multi_turn, single_turn
from fctncalling.lab.forge.clarify import clarify_entry
from fctncalling.lab.forge.forged_entry import ForgedEntry
from fctncalling.lab.forge.multi_turn.dials import CRITICAL_DIALS, HISTORY_DIALS
from fctncalling.lab.forge.multi_turn_entry import multi_turn_entry

Maker = Callable[[str, int, int, int], ForgedEntry]
"""(category, seed, index, attempt) -> task: nothing else decides."""


DIALS = {"history": HISTORY_DIALS, "critical": CRITICAL_DIALS}
"""`--dials` -> what multi-turn plans are drawn by, where it is not like BFCL's own."""


class ForgedCategory(NamedTuple):
    """Who makes a category's tasks, and how many of them a file gets."""

    make: Maker
    weight: float
    dialled: Mapping[str, Maker] = MappingProxyType({})  # --dials -> maker; others: as `make`


_SINGLE_TURN_WEIGHTS = {
    "live_simple": 3.0,
    "live_multiple": 3.0,
    "live_relevance": 3.0,
    "simple_java": 3.0,
    "simple_javascript": 3.0,
}
_MULTI_TURN_WEIGHTS = {
    "multi_turn_base": 26.0,
    "multi_turn_miss_func": 12.0,
    "multi_turn_miss_param": 12.0,
    "multi_turn_long_context": 6.0,
    "multi_turn_composite": 4.0,
}

FORGED_CATEGORIES: dict[str, ForgedCategory] = {
    name: ForgedCategory(single_turn.single_turn_entry, _SINGLE_TURN_WEIGHTS.get(name, 5.0))
    for name in single_turn.CATEGORIES
} | {
    name: ForgedCategory(
        multi_turn_entry,
        _MULTI_TURN_WEIGHTS[name],
        {word: partial(multi_turn_entry, dials=dials) for word, dials in DIALS.items()},
    )
    for name in multi_turn.CATEGORIES
}
FORGED_CATEGORIES["clarify"] = ForgedCategory(clarify_entry, 6.2)
"""Category -> maker and weight, in the order in which a file holds them. Of those of BFCL 60 of
100 tasks are multi-turn.
"""

BFCL_CATEGORIES = tuple(name for name in FORGED_CATEGORIES if name != "clarify")
"""Categories of BFCL, which are made where none is named."""

LONG_CONTEXT = ("multi_turn_long_context", "multi_turn_composite")
"""Categories whose tools load BFCL's long-context tables."""
