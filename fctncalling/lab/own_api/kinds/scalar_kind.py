"""ScalarKind: kind of a single value, its constraints and how to draw one."""

from __future__ import annotations

import datetime
import random
import re
import uuid
from dataclasses import dataclass
from typing import Any, Final

from fctncalling.lab.own_api.kinds.pattern_text import (
    has_pattern,
    is_python_regex,
    text_of_pattern,
    text_of_shape,
)
from fctncalling.lab.own_api.kinds.standards import STANDARDS
from fctncalling.lab.own_api.kinds.value_tables import has_table, value_table

UNSAID = ("unknown", "client")
NUMBERS = ("integer", "number", "quantity_with_unit")
MOMENTS = ("date", "time", "datetime", "month", "year")
DIGITS = 4  # of a number that nothing is known of but that it is one
ROUND_MINUTES = (0, 0, 15, 30, 30, 45)
EXAMPLES_SHARE = 0.4  # of texts that are one of the API's own examples
EARLY_DAY_SHARE = 0.2  # of dates that are moved to days of one digit, which go wrong the most
DRAWS = 12  # of one value, before it is said that none fits its own schema
LARGEST_SAID = 1_000_000  # a bound beyond it is a type's, not the value's


class NoDefault:
    """Absence of a documented default, which None could be."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = NoDefault()


@dataclass(frozen=True)
class ScalarKind:
    """Kind of a single value and the evidence for it.

    `kind` is enum, integer, number, quantity_with_unit, boolean, date, time, datetime, month, year,
    email, phone, identifier, person_name, place, free_text, url, standard, client (a client sets
    it, no user says it) or unknown (no request can name a value). `topic` narrows it: first, last
    or full (person_name); city, street (place); title, reason, note, query, thing, organisation ...
    (free_text), example (the API's own examples); the name in STANDARDS (standard); latitude or
    longitude (number), fraction (number that people say in percent), unix_time (integer).
    """

    kind: str
    type: str = "string"  # BFCL's type
    values: tuple[Any, ...] = ()  # the closed list, where there is one
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None  # of a number, counted from the minimum
    pattern: str | None = None  # a text has it somewhere, as JSON Schema means it
    shortest: int = 0  # characters of a text
    longest: int | None = None
    format: str = ""  # as a date or time is written, in strftime's letters; uuid
    examples: tuple[Any, ...] = ()
    known: tuple[Any, ...] = ()  # values seen in scenarios
    topic: str = ""
    unit: str = ""
    default: Any = MISSING
    required: bool = True
    guessed: bool = False  # from a name alone
    evidence: str = ""  # enum, examples, default, pattern, format, description, type, name, FILE
    description: str = ""

    def takes_single(self, value: Any) -> bool:
        """Return whether its schema takes a value: type, list, bounds, lengths, pattern, form."""
        if self.values:
            return value in self.values
        if isinstance(value, bool) or self.type == "boolean":
            return isinstance(value, bool) and self.type in ("boolean", "any")
        if isinstance(value, int | float):
            low, high = self.minimum, self.maximum
            fits = self.type != "integer" or isinstance(value, int)
            return fits and (low is None or value >= low) and (high is None or value <= high)
        return isinstance(value, str) and self._takes_text(value)

    def _takes_text(self, text: str) -> bool:
        if self.type in ("integer", "float"):
            return False
        if len(text) < self.shortest or (self.longest is not None and len(text) > self.longest):
            return False
        if self.pattern and is_python_regex(self.pattern) and not has_pattern(self.pattern, text):
            return False
        if self.kind == "standard":
            return STANDARDS[self.topic].reads(text)
        return self.kind not in MOMENTS or parse_moment(text, self.format) is not None

    def draw_single(self, rng: random.Random) -> Any:
        """Draw a valid value; raises ValueError if none is found."""
        for _ in range(DRAWS):
            value = _drawn(self, rng)
            if self.takes_single(value):
                return value
        raise ValueError(f"{self.kind}: no value that is drawn fits its own schema")


def parse_moment(text: str, form: str) -> datetime.datetime | None:
    """Parse a date, time or datetime; None if it cannot be parsed."""
    try:
        return datetime.datetime.strptime(text, form)
    except ValueError:
        return None


def _drawn(kind: ScalarKind, rng: random.Random) -> Any:
    if kind.values:
        return rng.choice(kind.values)
    if kind.kind in NUMBERS:
        return _number(kind, rng)
    if kind.kind == "boolean":
        return not kind.default if isinstance(kind.default, bool) else rng.random() < 0.6
    if kind.kind in MOMENTS:
        text = _moment(rng).strftime(kind.format)
        return int(text) if kind.type == "integer" else text
    if kind.kind == "standard":
        return STANDARDS[kind.topic].draw(rng)
    if kind.kind == "identifier":
        return _identifier(kind, rng)
    if kind.known and rng.random() < 0.5:
        return rng.choice(kind.known)
    if kind.kind == "phone":
        return _phone(kind, rng)
    return _text(kind, rng)


def _number(kind: ScalarKind, rng: random.Random) -> int | float:
    if kind.topic in ("latitude", "longitude", "unix_time"):
        text = STANDARDS[kind.topic].draw(rng)
        return int(text) if kind.topic == "unix_time" else float(text)
    low = kind.minimum if kind.minimum is not None else min(1, kind.maximum or 1)
    high = kind.maximum if kind.maximum is not None else max(low * 4, low + 50)
    low = low if low > -LARGEST_SAID else min(0, high)
    if high > LARGEST_SAID > low:
        high = max(low * 4, low + 50)
    if kind.step and kind.maximum is not None:
        return low + kind.step * rng.randint(0, int((high - low) // kind.step))
    if kind.topic == "fraction":
        return round(rng.randint(round(low * 200), round(high * 200)) / 200, 3)
    if kind.type == "integer":
        first, last = int(-(-low // 1)), int(high // 1)
        near = last if last - first > 5000 else min(last, first + 20)
        return rng.randint(first, near if rng.random() < 0.6 else last) if first < last else first
    step = 0.05 if high - low < 2 else 1.0 if kind.topic == "count" else rng.choice((0.5, 1.0))
    first, last = int(-(-low // step)), int(high // step)
    if first >= last:
        return float(low)
    near = min(last, first + 60) if rng.random() < 0.7 else last
    return round(step * rng.randint(first or (1 if last else 0), max(first, near)), 2)


def _moment(rng: random.Random) -> datetime.datetime:
    day = datetime.datetime(2026, 1, 1) + datetime.timedelta(days=rng.randrange(1095))
    if rng.random() < EARLY_DAY_SHARE:
        day = day.replace(day=rng.randint(1, 9))
    minute = rng.choice(ROUND_MINUTES) if rng.random() < 0.9 else rng.randrange(60)
    return day.replace(hour=rng.randint(7, 20), minute=minute)


def _identifier(kind: ScalarKind, rng: random.Random) -> Any:
    if kind.known and rng.random() < 0.5:
        return rng.choice(kind.known)
    if kind.format == "uuid":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    if kind.type in ("integer", "float"):
        low, high = int(kind.minimum or 1), int(kind.maximum or 10**DIGITS)
        return rng.randint(low, max(low, high))
    if kind.pattern is not None and (found := _like_pattern(kind, rng)):
        return found
    if kind.examples:
        return text_of_shape(str(rng.choice(kind.examples)), rng)
    if kind.topic == "slug":
        return STANDARDS["slug"].draw(rng)
    letters = "".join(rng.choice("ABCDEFGHKLMNPRSTUVWX") for _ in range(rng.randint(1, 3)))
    return f"{letters}{rng.choice(('-', '', '-'))}{rng.randint(100, 9999)}"


_READABLE = ("slug", "slug_underscore", "numeric_id", "semver")
"""Forms in which people write what a loose pattern takes."""


def _like_pattern(kind: ScalarKind, rng: random.Random) -> str | None:
    """Return a text of its pattern, in a readable form if the pattern takes one."""
    word = rng.choice(value_table("word"))
    addresses = [f"https://{word}.example/{word}{end}" for end in ("", ".pdf", ".png", ".html")]
    for text in addresses if "://" in str(kind.pattern) else ():
        if kind.takes_single(text):
            return text
    for form in _READABLE:
        text = STANDARDS[form].draw(rng)
        if kind.takes_single(text):
            return text
    found = text_of_pattern(str(kind.pattern), rng)
    small = re.sub(r"(?<=\d).*", lambda match: match[0].lower(), found or "", count=1)
    return small if found and kind.takes_single(small) else found


def _phone(kind: ScalarKind, rng: random.Random) -> str:
    country = rng.choice((31, 33, 39, 44, 46, 49))
    phone = f"+{country}{rng.randint(1, 9)}{rng.randrange(10**8, 10**9)}"
    if kind.takes_single(phone) or kind.pattern is None:
        return phone
    return text_of_pattern(kind.pattern, rng) or phone


def _text(kind: ScalarKind, rng: random.Random) -> str:
    if kind.kind == "person_name":
        first, last = rng.choice(value_table("first")), rng.choice(value_table("last"))
        return {"first": first, "last": last}.get(kind.topic, f"{first} {last}")
    if kind.kind == "email":
        who = f"{rng.choice(value_table('first'))}.{rng.choice(value_table('last'))}".lower()
        return f"{re.sub('[^a-z.]', '', who)}@{rng.choice(value_table('word'))}.example"
    if kind.kind == "url":
        host, page = rng.choice(value_table("word")), rng.choice(value_table("word"))
        return f"https://{host}.example/{page}"
    if kind.kind == "place":
        found = rng.choice(value_table(kind.topic if has_table(kind.topic) else "city"))
        return f"{rng.randint(1, 140)} {found}" if kind.topic == "street" else found
    if kind.topic == "proper":
        return str(rng.choice(kind.examples + value_table("word"))).capitalize()
    is_own = kind.topic == "example" or len(kind.examples) > 2 or kind.evidence == "FILE"
    is_own = is_own or rng.random() < EXAMPLES_SHARE
    if kind.examples and is_own:
        return str(rng.choice(kind.examples))
    return rng.choice(value_table(kind.topic if has_table(kind.topic) else "slug"))
