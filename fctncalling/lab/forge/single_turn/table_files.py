"""Tables of the single-turn forge: word lists and frames of functions, as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

TABLES = Path(__file__).with_name("tables")


def table_lines(name: str) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of a table, blank lines and comments left out."""
    text = (TABLES / f"{name}.txt").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.rstrip()


@cache
def read_word_lists(table: str = "words") -> dict[str, tuple[str, ...]]:
    """Return the lists of a table: a line is `name: word; word=other word; ...`."""
    lists = {}
    for _, line in table_lines(table):
        name, _, words = line.partition(":")
        lists[name.strip()] = tuple(word.strip() for word in words.split(";") if word.strip())
    return lists


@cache
def further_forms() -> dict[str, tuple[str, ...]]:
    """Return the table of forms: `list` or `list/word` -> forms, as `forms.txt` explains them."""
    forms: dict[str, tuple[str, ...]] = {}
    for _, line in table_lines("forms"):
        name, _, listed = line.partition(":")
        forms[name.strip()] = tuple(form.strip() for form in listed.split(";") if form.strip())
    return forms


@cache
def other_units() -> dict[str, tuple[tuple[float, bool, str, str], ...]]:
    """Return the table of other units: unit -> (size, whole ones only, one of them, many)."""
    units = {}
    for _, line in table_lines("spoken"):
        unit, _, listed = line.partition(":")
        rules = []
        for rule in listed.split(";"):
            size, _, words = rule.partition("=")
            one, _, many = words.partition(",")
            number, _, whole = size.strip().partition(" ")
            rules.append((float(number), whole == "whole", one.strip(), many.strip()))
        units[unit.strip()] = tuple(rules)
    return units


@cache
def related_nouns() -> tuple[frozenset[str], ...]:
    """Return groups of nouns: who wants one may be served by another of the group."""
    return tuple(frozenset(line.split()) for _, line in table_lines("related"))


def domain_tables() -> list[str]:
    """Return the names of the tables that hold frames, in a fixed order."""
    return sorted(path.stem for path in TABLES.glob("domain_*.txt"))
