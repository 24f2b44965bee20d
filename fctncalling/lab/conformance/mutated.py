"""Mutated answer: a response made from the right one, and in words what was changed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

GROUPS = ("valid", "lenient", "wrong", "harsh")
"""Strata: right answers that count, sloppy ones that BFCL lets pass, wrong ones, and right ones
that BFCL refuses.
"""


class Mutated(NamedTuple):
    """Response of a mutation."""

    response: Any
    change: str


class Mutation(NamedTuple):
    """Way to change a right answer, with the group that it is made for.

    `make` returns None where the answer has nothing to change in that way.
    """

    group: str
    make: Callable[[Any, random.Random], Mutated | None]


def stratum_name(group: str, name: str, valid: bool) -> str:
    """Return the stratum of a mutation by what it was made for and the official verdict.

    Where the two differ, a mutation is a leniency or a harshness of BFCL's.
    """
    if valid:
        return f"{group if group in ('valid', 'lenient') else 'lenient'}/{name}"
    return f"{group if group in ('wrong', 'harsh') else 'harsh'}/{name}"
