"""Categories the forge makes, their makers and their shares of a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fctncalling.forge import single_turn
from fctncalling.forge.forged_entry import ForgedEntry

Maker = Callable[[str, int, int, int], ForgedEntry]
"""(category, seed, index, attempt) -> task: nothing else decides."""


class ForgedCategory(NamedTuple):
    """Who makes a category's tasks, and how many of them a file gets."""

    make: Maker
    weight: float


_SINGLE_TURN_WEIGHTS = {"live_relevance": 2.0, "simple_java": 2.0, "simple_javascript": 2.0}

FORGED_CATEGORIES: dict[str, ForgedCategory] = {
    name: ForgedCategory(single_turn.single_turn_entry, _SINGLE_TURN_WEIGHTS.get(name, 6.0))
    for name in single_turn.CATEGORIES
}
"""Category -> maker and weight, in the order in which a file holds them."""
