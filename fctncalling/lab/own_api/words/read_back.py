"""Reader of spoken values: parses a phrase back to verify its wording."""

from __future__ import annotations

import datetime
import re
from functools import cache

from fctncalling.lab.own_api.english import NUMBERS, read_day
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.kinds.scalar_kind import MOMENTS, parse_moment
from fctncalling.lab.own_api.kinds.standards import STANDARDS
from fctncalling.lab.own_api.kinds.value_tables import other_forms
from fctncalling.lab.own_api.words.vocabulary import word_table

_NUMBER = re.compile(r"[^\w\s-]?(-?\d[\d, ]*(?:\.\d+)?)(?![\d.])")
_IN_WORDS = re.compile(rf"({'|'.join(NUMBERS)}|an?|half an?)( and a half)?\b")
_MONTH_AND_YEAR = re.compile(r"[A-Z][a-z]{2,8} \d{4}")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d\d))? ?(am|pm)?")
_CLOCK_IN_WORDS = re.compile(
    r"(half past |a quarter past |a quarter to )?(\w+)( thirty| o'clock)? in the "
    r"(morning|afternoon|evening)"
)


def reads_as(kind: ArgumentKind, text: str, value: bool | float | str) -> bool:
    """Return whether a phrase parses back to a value of its kind."""
    if isinstance(value, bool) or kind.values:
        return True  # their words fit no other value: `enum_value_words`
    if not isinstance(value, str):
        if kind.topic == "fraction":
            return text == f"{value * 100:g}%"
        return _number(text, kind.unit) == value
    if kind.kind in MOMENTS:
        return text == value or _moment(text, kind) == parse_moment(value, kind.format)
    if kind.kind == "standard":
        return text == value or text in STANDARDS[kind.topic].says(value)
    if kind.kind in ("phone", "identifier"):
        return _letters(text) == _letters(value)
    return text == value or text in other_forms(kind.topic, value)


def _letters(text: str) -> str:
    return re.sub(r"[\s-]", "", text)


def _number(text: str, unit: str) -> float | None:
    """Parse a number in a unit; None if the text has none."""
    if (amount := _amounts().get((unit, text))) is not None:
        return amount
    if in_words := _IN_WORDS.match(text):
        word, half = in_words.groups()
        number = NUMBERS.index(word) if word in NUMBERS else 0.5 if "half" in word else 1.0
        number += 0.5 if half else 0
    elif in_digits := _NUMBER.search(text):
        number = float(re.sub(r"[, ]", "", in_digits[1]))
    else:
        return None
    if unit.endswith(" cents"):
        return round(number * 100)
    smaller = {"kg": r"\d ?g\b|grams?\b|grammes?\b", "km": r"\d ?m\b| met(?:re|er)s?\b"}.get(unit)
    is_smaller = smaller and re.search(smaller, text) and "kilo" not in text
    return round(number / 1000, 6) if is_smaller else number


@cache
def _amounts() -> dict[tuple[str, str], float]:
    """Return (unit, words) -> number, of the table that says both at once."""
    table: dict[str, str] = word_table("value_words")["amounts"]
    parts = {key: key.rsplit(" ", 1) for key in table}
    return {(parts[key][0], words): float(parts[key][1]) for key, words in table.items()}


def _moment(text: str, kind: ArgumentKind) -> datetime.datetime | None:
    """Parse a spoken date or time."""
    start = datetime.date(1900, 1, 1)
    if kind.kind == "time":
        clock = _clock(text)
        return None if clock is None else datetime.datetime.combine(start, clock)
    if kind.kind in ("month", "year"):
        return _day(text, kind.kind)
    if kind.kind == "date":
        return _day(text, "date")
    for mark in (" on ", ", "):
        clock_text, _, day_text = text.partition(mark)
        clock, day = _clock(clock_text), _day(day_text, "date")
        if clock and day:
            return datetime.datetime.combine(day.date(), clock)
    return None


def _day(text: str, kind: str) -> datetime.datetime | None:
    if form := {"-": "%Y-%m-%d", ".": "%d.%m.%Y"}.get(re.sub(r"[\d\s]", "", text)[:1]):
        return parse_moment(text, form)
    if slashed := re.fullmatch(r"(\d{1,2})/(\d{1,2})/(\d{4})", text):
        one, two, year = map(int, slashed.groups())
        both = one > 12, two > 12
        if both[0] == both[1]:
            return None  # either could be the month
        return datetime.datetime(year, two if both[0] else one, one if both[0] else two)
    if kind == "month" and _MONTH_AND_YEAR.fullmatch(text):
        text = f"1 {text}"
    day = read_day(text)
    return None if day is None else datetime.datetime.combine(day, datetime.time())


def _clock(text: str) -> datetime.time | None:
    if text in ("noon", "12 noon"):
        return datetime.time(12)
    if found := _CLOCK_IN_WORDS.fullmatch(text):
        front, name, behind, part = found.groups()
        hour = NUMBERS.index(name) if name in NUMBERS else int(name) if name.isdigit() else None
        if hour is None:
            return None
        minute = 30 if "half" in (front or "") or behind == " thirty" else 15 if front else 0
        hour = hour % 12 + (0 if part == "morning" else 12)
        at = hour * 60 + (-15 if front == "a quarter to " else minute)
        return datetime.time(at // 60 % 24, at % 60)
    if found := _CLOCK.fullmatch(text):
        hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
        if half:
            hour = hour % 12 + (12 if half == "pm" else 0)
        return datetime.time(hour, minute) if hour < 24 else None
    return None
