"""Groups of categories, as BFCL groups them, and what --category stands for."""

from __future__ import annotations

import difflib

from fctncalling.checkers.leaderboard import (
    LIVE,
    MEMORY,
    MULTI_TURN,
    NON_LIVE,
    SIZES,
    WEB_SEARCH,
)
from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.data.format_sensitivity import CATEGORY

_SINGLE = (*NON_LIVE, "irrelevance", *LIVE, "live_irrelevance", "live_relevance")
GROUPS: dict[str, tuple[str, ...]] = {
    "all": (*_SINGLE, *MULTI_TURN, *WEB_SEARCH, *MEMORY),
    "single_turn": _SINGLE,
    "non_live": (*NON_LIVE, "irrelevance"),
    "live": (*LIVE, "live_irrelevance", "live_relevance"),
    "multi_turn": MULTI_TURN,
    "web_search": WEB_SEARCH,
    "memory": MEMORY,
    "agentic": (*WEB_SEARCH, *MEMORY),
}
"""Name of a group of categories -> its categories, as BFCL groups them."""


def expanded(names: list[str]) -> list[str]:
    """Return categories, groups replaced by theirs, each once.

    Raises InputError for a near miss.
    """
    known = {*GROUPS, *SIZES, CATEGORY}
    for name in names:
        near = [] if name in known else difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if near:
            raise InputError(f"--category: there is no {name}; is {near[0]} meant?")
    return list(dict.fromkeys(category for name in names for category in GROUPS.get(name, (name,))))
