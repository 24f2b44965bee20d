"""Part of an API: the functions of some names, operations or tags."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from fctncalling.data.types import FunctionDoc
from fctncalling.lab.own_api.function_choice import MOST_OFFERED
from fctncalling.specification.api import OwnApi, SpecificationError

MOST_TOLD = 5  # names in one note


def add_offer_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the flags that select operations and limit offered functions."""
    add = parser.add_argument
    most = "functions a request is offered at most; of a larger API likely ones; default: "
    add("--offered", type=int, default=MOST_OFFERED, metavar="N", help=f"{most}%(default)s")
    part = "take a part of the API: patterns such as 'list_*', or 'GET /users/*' of OpenAPI"
    add("--operations", nargs="+", default=[], metavar="NAME", help=part)
    add(
        "--tags", nargs="+", default=[], metavar="TAG", help="take the operations of OpenAPI's tags"
    )


def require_offered(offered: int) -> None:
    """Raise SpecificationError for a number of offered functions that is too small."""
    if offered < 1:
        raise SpecificationError(f"--offered {offered}: expected at least 1")


def part_of_api(api: OwnApi, operations: Sequence[str] = (), tags: Sequence[str] = ()) -> OwnApi:
    """Return the functions that one of the patterns and one of the tags takes (none: all).

    Patterns are those of files, over a function's name, its own in the specification, its path and
    "METHOD path". SpecificationError, with the nearest, for one that takes nothing.
    """
    kept = api.functions
    for flag, wanted, words in (("operations", operations, _names), ("tags", tags, _tags)):
        if wanted:
            every = {doc.name: words(doc, api.origins.get(doc.name, {})) for doc in api.functions}
            for pattern in wanted:
                _require_one(api.source, flag, pattern, every)
            kept = tuple(d for d in kept if any(_takes(e, every[d.name]) for e in wanted))
    if not kept:
        raise SpecificationError(f"{api.source}: no function is of both --operations and --tags")
    names, count = {doc.name for doc in kept}, len(api.functions) - len(kept)
    rest = [doc for doc in api.functions if doc.name not in names]
    lacked = {doc.name: frozenset(doc.parameters.get("properties", ())) for doc in rest}
    return replace(
        api,
        functions=kept,
        schemas={key: each for key, each in api.schemas.items() if key[0] in names},
        origins={name: each for name, each in api.origins.items() if name in names},
        left_out={**api.left_out, **({"not chosen": count} if count else {})},
        not_chosen={**api.not_chosen, **lacked},
    )


def tell_passed_over(file: str, names: Collection[str]) -> None:
    """Tell which tables of a file are of functions that a chosen part of the API lacks."""
    if names:
        first, more = sorted(names)[:MOST_TOLD], len(names) - MOST_TOLD
        told = ", ".join(first) + (f" and {more} more" if more > 0 else "")
        print(f"note: {file}: passed over, not of the chosen functions: {told}", file=sys.stderr)


def _names(doc: FunctionDoc, origin: Mapping[str, Any]) -> list[str]:
    found = [doc.name, str(origin.get("name", doc.name))]
    path = str(origin.get("path", ""))
    return [*found, path, f"{origin.get('method')} {path}"] if path else found


def _tags(_: FunctionDoc, origin: Mapping[str, Any]) -> list[str]:
    return [str(tag) for tag in origin.get("tags", ())]


def _takes(pattern: str, words: Sequence[str]) -> bool:
    return any(fnmatchcase(word.lower(), pattern.lower()) for word in words)


def _require_one(source: str, flag: str, pattern: str, every: Mapping[str, Sequence[str]]) -> None:
    known = sorted({word for words in every.values() for word in words})
    if not known:
        raise SpecificationError(f"--{flag} {pattern}: {source} has no {flag}")
    if not _takes(pattern, known):
        [nearest] = get_close_matches(pattern, known, 1, 0)
        raise SpecificationError(f"--{flag} {pattern}: {source} has none; the nearest is {nearest}")
