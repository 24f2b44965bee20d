"""Standard values: time zones, codes of countries and currencies, addresses of machines."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fctncalling.lab.own_api.kinds.clues import kind_tables
from fctncalling.lab.own_api.kinds.pattern_text import matches_pattern, text_of_pattern
from fctncalling.lab.own_api.kinds.value_tables import names_of_codes, value_table, zones


@dataclass(frozen=True)
class Standard:
    """One form of value, a row of `standards.toml`."""

    table: str = ""
    members: str = ""
    write: str = ""
    read: str = ""
    words: str = ""

    def draw(self, rng: random.Random) -> str:
        """Return a value."""
        if self.table:
            return rng.choice(value_table(self.table))
        return text_of_pattern(self.write, rng) or ""

    def reads(self, text: str) -> bool:
        """Return whether a text is a value of it."""
        table = self.members or self.table
        if self.read or not table:
            return matches_pattern(self.read or self.write, text)
        return text in _members(table)

    def says(self, value: str) -> Sequence[str]:
        """Return the other words in which people say a value."""
        if self.words in _SAID:
            return _SAID[self.words](value)
        name = _only_named(self.words).get(value.upper() if self.words == "currencies" else value)
        return (name,) if name else ()


@cache
def _members(table: str) -> frozenset[str]:
    return frozenset(value_table(table))


@cache
def _only_named(sort: str) -> Mapping[str, str]:
    """Return code -> English name for names that no other code has."""
    names = names_of_codes(sort) if sort else {}
    every = list(names.values())
    return {code: name for code, name in names.items() if every.count(name) == 1}


def _said_duration(value: str) -> Sequence[str]:
    found = re.fullmatch(r"(?:PT)?(\d+)([SMHsmh])", value)
    if not found:
        return ()
    word = {"S": "second", "M": "minute", "H": "hour"}[found[2].upper()]
    return (f"{found[1]} {word}{'' if found[1] == '1' else 's'}",)


def _said_zone(value: str) -> Sequence[str]:
    city = value.rsplit("/", 1)[-1].replace("_", " ")
    is_only = sum(zone.city == city for zone in zones()) == 1
    return (f"{city} time",) if is_only and value in _members("time_zone") else ()


_SAID: Mapping[str, Callable[[str], Sequence[str]]] = {
    "duration": _said_duration,
    "zone": _said_zone,
}
_ROWS = files("fctncalling.lab.own_api.kinds").joinpath("standards.toml").read_text("utf-8")
STANDARDS: Mapping[str, Standard] = {
    name: Standard(**row) for name, row in tomllib.loads(_ROWS).items()
}
"""Form -> its standard."""


def standard_of(
    name: str, about: str, evidence: Sequence[str], takes: Callable[[str], bool]
) -> str | None:
    """Infer a parameter's standard from its name and description; None if there is none.

    In a row of the table `name` ends a parameter's words, or `about` stands in the description;
    `forms` maps the standards of a sort to words that mean one and no other of them. `evidence`:
    examples and defaults, all of which the standard must read. `takes` says whether the schema
    takes a value.
    """
    rng = random.Random(name)
    words = f"{name}. {about}"
    for row in kind_tables()["families"]:
        by_name = re.search(rf"\b(?:{row['name']})$", name)
        if not by_name and not ("about" in row and re.search(row["about"], about)):
            continue
        fitting = [
            (form, hint)
            for form, hint in row["forms"].items()
            if (not evidence or all(map(STANDARDS[form].reads, evidence)))
            and takes(STANDARDS[form].draw(rng))
        ]
        hinted = [form for form, hint in fitting if hint and re.search(hint, words)]
        plain = [form for form, hint in fitting if not hint]
        shown = [form for form, _ in fitting] if evidence else []
        if chosen := (hinted or shown or plain):
            return str(chosen[0])
    return None
