"""Values of scalar kinds, drawn from tables, patterns and bounds."""

from __future__ import annotations

import datetime
import json
import random
import re
import uuid
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from fctncalling.lab.own_api.kinds.pattern_text import text_of_pattern, text_of_shape

DIGITS = 4  # of a number that nothing is known of but that it is one
ROUND_MINUTES = (0, 0, 15, 30, 30, 45)
MAKERS_SHARE = 0.3  # of searches that may be for a maker's name
EARLY_DAY_SHARE = 0.2  # of dates that are moved to days of one digit, which go wrong the most


class ScalarFacts(Protocol):
    """Facts of an ArgumentKind that drawing needs."""

    @property
    def kind(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def values(self) -> tuple[Any, ...]: ...
    @property
    def minimum(self) -> float | None: ...
    @property
    def maximum(self) -> float | None: ...
    @property
    def pattern(self) -> str | None: ...
    @property
    def format(self) -> str: ...
    @property
    def examples(self) -> tuple[Any, ...]: ...
    @property
    def known(self) -> tuple[Any, ...]: ...
    @property
    def topic(self) -> str: ...
    @property
    def default(self) -> Any: ...
    @property
    def description(self) -> str: ...


@cache
def value_pools() -> dict[str, list[str]]:
    """Return the tables of names, places and texts."""
    text = files("fctncalling.lab.own_api.kinds").joinpath("pools.json").read_text(encoding="utf-8")
    found: dict[str, list[str]] = json.loads(text)
    return found


def draw_scalar(facts: ScalarFacts, rng: random.Random) -> Any:
    """Return a value of a kind that is no array and no object."""
    if facts.values:
        return rng.choice(facts.values)
    if facts.kind in ("integer", "number", "quantity_with_unit"):
        return _number(facts, rng)
    if facts.kind == "boolean":
        return not facts.default if isinstance(facts.default, bool) else rng.random() < 0.6
    if facts.kind in ("date", "time", "datetime", "month", "year"):
        text = _moment(rng, facts.kind).strftime(facts.format)
        return int(text) if facts.type == "integer" else text
    if facts.kind == "identifier":
        return _identifier(facts, rng)
    if facts.known and rng.random() < 0.5:
        return rng.choice(facts.known)
    if facts.kind == "phone" and facts.pattern is not None:
        phone = _phone(rng)
        sound = re.fullmatch(facts.pattern, phone)
        return phone if sound else text_of_pattern(facts.pattern, rng) or phone
    return _text(facts, rng)


def _number(facts: ScalarFacts, rng: random.Random) -> int | float:
    low = facts.minimum if facts.minimum is not None else min(1, facts.maximum or 1)
    high = facts.maximum if facts.maximum is not None else max(low * 4, low + 50)
    if facts.type == "integer":
        first, last = int(-(-low // 1)), int(high // 1)
        near = last if last - first > 5000 else min(last, first + 20)
        return rng.randint(first, near if rng.random() < 0.6 else last) if first < last else first
    step = 0.05 if high - low < 2 else rng.choice((0.5, 1.0))
    first, last = int(-(-low // step)), int(high // step)
    if first >= last:
        return float(low)
    near = min(last, first + 60) if rng.random() < 0.7 else last
    return round(step * rng.randint(first or (1 if last else 0), max(first, near)), 2)


def _moment(rng: random.Random, kind: str) -> datetime.datetime:
    day = datetime.datetime(2026, 1, 1) + datetime.timedelta(days=rng.randrange(1095))
    if rng.random() < EARLY_DAY_SHARE:
        day = day.replace(day=rng.randint(1, 9))
    minute = rng.choice(ROUND_MINUTES) if rng.random() < 0.9 else rng.randrange(60)
    return day.replace(hour=rng.randint(7, 20), minute=minute)


def _identifier(facts: ScalarFacts, rng: random.Random) -> Any:
    if facts.known and rng.random() < 0.5:
        return rng.choice(facts.known)
    if facts.format == "uuid":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    if facts.type in ("integer", "float"):
        low, high = facts.minimum or 1, facts.maximum or 10**DIGITS
        return rng.randint(int(low), int(high))
    if facts.pattern is not None and (found := text_of_pattern(facts.pattern, rng)):
        return found
    if facts.examples:
        return text_of_shape(str(rng.choice(facts.examples)), rng)
    letters = "".join(rng.choice("ABCDEFGHKLMNPRSTUVWX") for _ in range(rng.randint(1, 3)))
    return f"{letters}{rng.choice(('-', '', '-'))}{rng.randint(100, 9999)}"


def _text(facts: ScalarFacts, rng: random.Random) -> str:
    tables = value_pools()
    if facts.kind == "person_name":
        first, last = rng.choice(tables["first"]), rng.choice(tables["last"])
        whole = f"{first} {last}"
        if re.search(r"\bpart of (?:it|(?:the |a |his |her )?name)\b", facts.description.lower()):
            return rng.choice((whole, whole, last, last, first))
        return {"first": first, "last": last}.get(facts.topic, whole)
    if facts.kind == "email":
        who = f"{rng.choice(tables['first'])}.{rng.choice(tables['last'])}"
        return f"{_plain(who)}@{_plain(rng.choice(tables['word']))}.example"
    if facts.kind == "phone":
        return _phone(rng)
    if facts.kind == "url":
        return f"https://{_plain(rng.choice(tables['word']))}.example/{rng.choice(tables['word'])}"
    if facts.kind == "place":
        topic = facts.topic if facts.topic in tables else "city"
        place = rng.choice(tables[topic])
        return f"{place} {rng.randint(1, 140)}" if topic == "street" else place
    if facts.topic == "query" and may_name_creator(facts) and rng.random() < MAKERS_SHARE:
        return rng.choice(tables["last"])
    if facts.topic == "proper":
        return str(rng.choice(facts.examples + tuple(tables["word"]))).capitalize()
    if len(facts.examples) > 2:
        return str(rng.choice(facts.examples))
    if facts.topic in tables:
        return rng.choice(tables[facts.topic])
    return f"{rng.choice(tables['adjective'])} {rng.choice(tables['word'])}"


def may_name_creator(facts: ScalarFacts) -> bool:
    """Return whether words that are looked for may be the name of who made the thing."""
    makers = r"\b(?:author|artist|writer|composer|singer|band|director|painter)"
    return bool(re.search(makers, facts.description.lower()))


def _phone(rng: random.Random) -> str:
    country = rng.choice((31, 33, 39, 44, 46, 49))
    return f"+{country}{rng.randint(1, 9)}{rng.randrange(10**8, 10**9)}"


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", text.lower())
