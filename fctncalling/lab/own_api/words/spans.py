"""Spans: two values of one call said together, from one to the other."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from random import Random
from typing import Any

from fctncalling.lab.own_api.words.clauses import SaidValue
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.moments import parse_moment
from fctncalling.lab.own_api.words.nouns import spaced_words
from fctncalling.lab.own_api.words.spoken_values import spoken_value

_PAIRS = (
    ("start", "end"),
    ("begin", "end"),
    ("from", "to"),
    ("from", "until"),
    ("since", "until"),
    ("after", "before"),
    ("check in", "check out"),
    ("checkin", "checkout"),
    ("min", "max"),
    ("first", "last"),
    ("open", "close"),
    ("opens", "closes"),
    ("pickup", "return"),
)
_WITH_ORDER = frozenset("date time datetime integer number quantity_with_unit year".split())
_OF_PLACES = frozenset("identifier place".split())
_PART_OF_DAY = (" in the morning", " in the afternoon", " in the evening", " am", " pm", "am", "pm")
SAID_TOGETHER_SHARE = 0.6


def ordered_parameter_pairs(words: FunctionWords) -> list[tuple[str, str]]:
    """Return pairs of parameters of which one is before the other."""
    return [
        pair for pair in span_parameter_pairs(words) if words.kinds[pair[0]].kind in _WITH_ORDER
    ]


def span_parameter_pairs(words: FunctionWords) -> list[tuple[str, str]]:
    """Return pairs of parameters that are the two ends of something: of time, of a way."""
    found: list[tuple[str, str]] = []
    for name, kind in words.kinds.items():
        for other, its in words.kinds.items():
            if name == other or kind.kind != its.kind or kind.kind not in _WITH_ORDER | _OF_PLACES:
                continue
            one, two = f" {spaced_words(name)} ", f" {spaced_words(other)} "
            for first, second in _PAIRS:
                if f" {first} " in one and one.replace(f" {first} ", f" {second} ") == two:
                    found.append((name, other))
    return found


def month_spanned_by_dates(first: Any, last: Any, form: str) -> datetime.date | None:
    """Return the first day of the month that two dates span; None where they span no month."""
    begin, end = parse_moment(str(first), form), parse_moment(str(last), form)
    if begin is None or end is None or begin.day != 1 or begin >= end:
        return None
    following = end + datetime.timedelta(days=1)
    one_month = following.day == 1 and (end.year, end.month) == (begin.year, begin.month)
    return begin.date() if one_month else None


def said_span(
    words: FunctionWords, pair: tuple[str, str], arguments: Mapping[str, Any], rng: Random
) -> SaidValue:
    """Return one way to say both ends at once: "from 9 to half past ten in the morning"."""
    kind, first, last = words.kinds[pair[0]], arguments[pair[0]], arguments[pair[1]]
    if kind.kind == "date" and (month := month_spanned_by_dates(first, last, kind.format)):
        told = ("in {m}", "in {m}", "of {m}", "from all of {m}", "in the course of {m}")
        return SaidValue(rng.choice(told).replace("{m}", f"{month:%B %Y}"), False)
    one, two = spoken_value(kind, first, rng), spoken_value(words.kinds[pair[1]], last, rng)
    if kind.kind == "time":
        one, two = _once_told(one, two)
    forms = ["from {a} to {b}", "from {a} to {b}"]
    if kind.kind in _WITH_ORDER:
        forms += ["from {a} until {b}", "between {a} and {b}", "from {a} till {b}", "{a} to {b}"]
    if re.search(r"\bnew\b", kind.description.lower()):
        forms = ["to {a} until {b}", "so that it is from {a} to {b}", "from {a} to {b} instead"]
    return SaidValue(rng.choice(forms).replace("{a}", one).replace("{b}", two), False)


def _once_told(one: str, two: str) -> tuple[str, str]:
    """Return two clock times of which the second tells the part of the day for both."""
    for part in _PART_OF_DAY:
        if one.endswith(part) and two.endswith(part) and one != two:
            return one.removesuffix(part), two
    return one, two
