"""Couplings: functions of which arguments belong together, as `couplings.toml` lists them.

Of a function that is not listed each argument is drafted by its kind alone.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from fctncalling.lab.forge.multi_turn import car_drafts, desk_drafts, inventory, trade_drafts
from fctncalling.lab.forge.multi_turn.drafter import (
    Arguments,
    Draft,
    Drafter,
    Part,
    own_text,
    verb_implied_value,
    verbatim_value,
)
from fctncalling.lab.forge.plan import Value

_DRAFTS = {**vars(desk_drafts), **vars(trade_drafts), **vars(car_drafts)}


def _part(text: str) -> Part:
    """Return the draft of one argument that a line of the table names."""
    head, _, rest = text.partition(" ")
    kind, _, what = rest.partition(" ")
    match head:
        case "fresh":
            return lambda drafter: drafter.fresh(kind)
        case "of":
            return lambda drafter: drafter.value(kind)
        case "flag":
            return lambda _: verb_implied_value(kind, json.loads(what))
        case "fixed":
            return lambda _: verbatim_value(kind, json.loads(what))
        case "drawn":
            return lambda drafter: verbatim_value(kind, getattr(inventory, what)(drafter.draw))
        case "text":
            return lambda drafter: own_text(drafter, getattr(inventory, kind))
        case "said":
            paths = [path.split(".") for path in what.split()]
            return lambda drafter: verbatim_value(
                kind, " ".join(drafter.state[owner][name] for owner, name in paths)
            )
        case "maybe" | "mostly":
            return _sometimes(float(kind), _part(what), is_said=head == "maybe")
    part: Part = _DRAFTS[text]
    return part


def _sometimes(chance: float, part: Part, *, is_said: bool) -> Part:
    """Return a draft that with this chance is said, or left out."""

    def draft(drafter: Drafter) -> Value | None:
        return part(drafter) if (drafter.draw.random() < chance) is is_said else None

    return draft


def _draft(entry: str | dict[str, str]) -> Draft:
    """Return the draft of all arguments that an entry of the table names."""
    if isinstance(entry, str):
        name, _, arguments = entry.partition(": ")
        made: Any = _DRAFTS[name]
        draft: Draft = made(*arguments.split(" | ")) if arguments else made
        return draft
    parts = {name: _part(text) for name, text in entry.items()}

    def of_parts(drafter: Drafter) -> Arguments:
        made = ((name, part(drafter)) for name, part in parts.items())
        return {name: value for name, value in made if value is not None}

    return of_parts


ARGUMENT_DRAFTS: dict[str, Draft] = {
    function: _draft(entry)
    for functions in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).values()
    for function, entry in functions.items()
}
"""Function -> how its arguments are drafted together."""
