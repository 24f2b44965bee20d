"""Shapes of the single-turn categories: how many functions, parameters and calls a task has.

The shares are those of BFCL's own categories, measured by `measures.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

Shares = Mapping[int, float]
"""Number -> share of tasks (or of functions) that have so many."""

_ONE: Shares = {1: 1.0}
_PYTHON: Shares = {1: 0.02, 2: 0.25, 3: 0.578, 4: 0.122, 5: 0.025, 6: 0.005}


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


_LIVE = CategoryProfile(
    {1: 0.31, 2: 0.125, 3: 0.25, 4: 0.125, 5: 0.19},
    {2: 0.12, 3: 0.2, 4: 0.38, 5: 0.22, 6: 0.08},
    _ONE,
    dotted_share=0.12,
    question_share=0.75,
    context_share=0.35,
    float_share=0.1,
    said_share=0.3,
    compute_weight=0.5,
    common_share=0.5,
    optional_share=0.5,
    required_share=0.02,
)

PROFILES: Mapping[str, CategoryProfile] = {
    "simple_python": CategoryProfile(_ONE, _PYTHON, _ONE, 0.42, 0.22, 0.06, 0.07),
    "multiple": CategoryProfile(
        {2: 0.395, 3: 0.425, 4: 0.18},
        {1: 0.058, 2: 0.305, 3: 0.497, 4: 0.111, 5: 0.023, 6: 0.006},
        _ONE,
        0.56,
        0.39,
        0.06,
        0.52,
        default_share=0.37,
        enum_share=0.18,
    ),
    "parallel": CategoryProfile(
        _ONE,
        {1: 0.035, 2: 0.4, 3: 0.46, 4: 0.085, 5: 0.015, 6: 0.005},
        {2: 0.545, 3: 0.26, 4: 0.18, 6: 0.005, 8: 0.01},
        0.42,
        0.76,
        0.75,
        0.07,
        said_share=0.88,
        closing_share=0.3,
        compute_weight=6.0,
        default_share=0.45,
        enum_share=0.18,
    ),
    "parallel_multiple": CategoryProfile(
        {2: 0.5, 3: 0.4, 4: 0.1},
        {1: 0.108, 2: 0.335, 3: 0.437, 4: 0.094, 5: 0.023, 6: 0.003},
        {2: 0.32, 3: 0.33, 4: 0.35},
        0.6,
        0.1,
        0.95,
        0.6,
        said_share=0.88,
        closing_share=0.85,
        default_share=0.45,
        enum_share=0.16,
    ),
    "irrelevance": CategoryProfile(
        _ONE,
        {1: 0.012, 2: 0.243, 3: 0.671, 4: 0.061, 5: 0.013},
        {0: 1.0},
        0.38,
        0.78,
        0.0,
        1.0,
        default_share=0.78,
        enum_share=0.24,
    ),
    "live_simple": replace(
        _LIVE,
        functions=_ONE,
        parameters={1: 0.17, 2: 0.4, 3: 0.24, 4: 0.06, 5: 0.05, 6: 0.05, 7: 0.03},
        dotted_share=0.3,
        question_share=0.6,
        optional_share=0.8,
    ),
    "live_multiple": replace(
        _LIVE,
        functions={2: 0.21, 3: 0.29, 4: 0.17, 5: 0.2, 6: 0.08, 7: 0.05},
        parameters={1: 0.07, 2: 0.2, 3: 0.22, 4: 0.25, 5: 0.14, 6: 0.09, 7: 0.03},
    ),
    "live_relevance": _LIVE,
}


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
def accepted_form_table() -> dict[str, tuple[str, ...]]:
    """Return the table of forms: `list` or `list/word` -> forms, as `forms.txt` explains them."""
    forms: dict[str, tuple[str, ...]] = {}
    for _, line in table_lines("forms"):
        name, _, listed = line.partition(":")
        forms[name.strip()] = tuple(form.strip() for form in listed.split(";") if form.strip())
    return forms


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
