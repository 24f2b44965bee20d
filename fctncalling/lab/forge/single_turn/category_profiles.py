"""Shapes of the single-turn categories: how many functions, parameters and calls a task has.

The shares are those of BFCL's own categories, measured by `measures.py`.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Shares = Mapping[int, float]
"""Number -> share of tasks (or of functions) that have so many."""


@dataclass(frozen=True)
class CategoryProfile:
    """The shape of one category's tasks."""

    functions: Shares
    parameters: Shares
    calls: Shares
    dotted_share: float  # of function names with a dot
    question_share: float  # of requests put as a question
    context_share: float  # of questions that say why
    float_share: float  # of functions that document whole numbers as floats
    said_share: float = 0.66  # of optional parameters that the user says
    closing_share: float = 0.0  # of questions with a closing sentence
    compute_weight: float = 1.5  # of frames that compute something
    default_share: float = 0.29  # of defaults that stand in `default` and not only in words
    enum_share: float = 0.28  # of enumerations that stand in `enum`, not in the description
    common_share: float = 0.06  # of functions with options that any function of a mode may have
    optional_share: float = 0.1  # of a frame's required parameters that may turn optional
    required_share: float = 0.22  # of a frame's optional parameters that are required all the same


def _read_profiles() -> Iterator[tuple[str, CategoryProfile]]:
    rows = tomllib.loads(Path(__file__).with_name("profiles.toml").read_text(encoding="utf-8"))
    for name, row in rows.items():
        whole = {**rows.get(row.pop("like", ""), {}), **row}
        for counted in ("functions", "parameters", "calls"):
            whole[counted] = {int(number): share for number, share in whole[counted].items()}
        yield name, CategoryProfile(**whole)


PROFILES: Mapping[str, CategoryProfile] = dict(_read_profiles())


def draw_number(shares: Shares, rng: random.Random) -> int:
    """Return a number with the probability its share gives it."""
    return rng.choices(list(shares), weights=list(shares.values()))[0]


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
def unit_conversions() -> dict[str, tuple[tuple[float, bool, str, str], ...]]:
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
def related_noun_groups() -> tuple[frozenset[str], ...]:
    """Return groups of nouns: who wants one may be served by another of the group."""
    return tuple(frozenset(line.split()) for _, line in table_lines("related"))


def domain_table_names() -> list[str]:
    """Return the names of the tables that hold frames, in a fixed order."""
    return sorted(path.stem for path in TABLES.glob("domain_*.txt"))
