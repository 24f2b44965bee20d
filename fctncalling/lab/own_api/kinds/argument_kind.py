"""Kinds of values: how those of a parameter are drawn, and which others are as right."""

from __future__ import annotations

import datetime
import json
import random
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from itertools import islice, permutations, product
from typing import Any, Final

from fctncalling.lab.own_api.kinds.pattern_text import (
    matches_pattern,
    shape_pattern,
    text_of_pattern,
    text_of_shape,
)

DIGITS = 4  # of a number that nothing is known of but that it is one
ROUND_MINUTES = (0, 0, 15, 30, 30, 45)
MAKERS_SHARE = 0.3  # of searches that may be for a maker's name
EARLY_DAY_SHARE = 0.2  # of dates that are moved to days of one digit, which go wrong the most
MOST_NAMED = 150  # values that one argument holds, for a request to name them all
LONGEST_IN_ANY_ORDER = 5  # items: 120 orders
MOST_SPELLINGS = 120


class NoDefault:
    """Absence of a documented default, which None could be."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = NoDefault()


@dataclass(frozen=True)
class ArgumentKind:
    """Kind of one parameter's values, and what says so.

    `kind` is enum, integer, number, quantity_with_unit, boolean, date, time, datetime, month, year,
    email, phone, identifier, person_name, place, free_text, url, array, object, one_of, or unknown
    (no request can name a value). `topic` narrows it: first, last or full (person_name); city,
    street, country (place); title, reason, note, query, thing, organisation ... (free_text). Of an
    array `item` is the kind of its items, of an object `properties` are those of its keys, of
    one_of `alternatives` are its objects.
    """

    kind: str
    type: str = "string"  # BFCL's type
    values: tuple[Any, ...] = ()  # the closed list, where there is one
    minimum: float | None = None
    maximum: float | None = None
    pattern: str | None = None
    format: str = ""  # as a date or time is written, in strftime's letters
    examples: tuple[Any, ...] = ()
    known: tuple[Any, ...] = ()  # values seen in scenarios
    topic: str = ""
    unit: str = ""
    default: Any = MISSING
    required: bool = True
    guessed: bool = False  # from a name alone
    evidence: str = ""  # enum, examples, default, pattern, format, description, type, name, FILE
    ordered: bool = False  # of an array: whether the order of its items matters
    min_items: int = 1
    max_items: int = 3
    item: ArgumentKind | None = None
    properties: Mapping[str, ArgumentKind] = field(default_factory=dict)
    alternatives: tuple[ArgumentKind, ...] = ()
    description: str = ""

    @cached_property
    def most_named(self) -> int:
        """How many values the largest of its arguments holds."""
        if self.item is not None:
            return self.max_items * self.item.most_named
        of_keys = sum(each.most_named for each in self.properties.values())
        return max(1, of_keys, *(each.most_named for each in self.alternatives))

    @cached_property
    def can_be_asked(self) -> bool:
        """Whether a request can name values of it."""
        if self.most_named > MOST_NAMED:
            return False
        if self.kind == "array":
            return self.item is not None and self.item.can_be_asked
        if self.kind == "object":
            each_key = self.properties.values()
            return any(each.can_be_asked for each in each_key) and all(
                each.can_be_asked for each in each_key if each.required
            )
        if self.kind == "one_of":
            return any(each.can_be_asked for each in self.alternatives)
        return self.kind != "unknown"

    @property
    def loose_pattern(self) -> str:
        """The pattern of its values in any length, for R-9 and R-17 number one sort of thing."""
        pattern = self.pattern or (shape_pattern(str(self.examples[0])) if self.examples else "")
        return re.sub(r"(\\d)+", r"\\d+", pattern)

    def draw(self, rng: random.Random) -> Any:
        """Return a value of it; ValueError for one that no request can name."""
        if not self.can_be_asked:
            raise ValueError(f"{self.kind}: no request can name a value of it")
        if self.kind == "array":
            return self._draw_items(rng)
        if self.kind == "object":
            askable = {name: each for name, each in self.properties.items() if each.can_be_asked}
            kept = [name for name, each in askable.items() if each.required or rng.random() < 0.35]
            return {name: askable[name].draw(rng) for name in kept or [rng.choice([*askable])]}
        if self.kind == "one_of":
            return rng.choice([each for each in self.alternatives if each.can_be_asked]).draw(rng)
        return draw_scalar(self, rng)

    def _draw_items(self, rng: random.Random) -> list[Any]:
        assert self.item is not None
        wanted = rng.randint(self.min_items, max(self.min_items, self.max_items))
        items: list[Any] = []
        for _ in range(8 * wanted):
            item = self.item.draw(rng)
            if item not in items:
                items.append(item)
            if len(items) == wanted:
                break
        return items

    def accepted(self, value: Any) -> list[Any]:
        """Return the values that are as right as this one, as BFCL's truths list them.

        A list is right in any order unless its order matters; an object is a mapping of its keys to
        their accepted values; what equals the documented default may be left out ("").
        """
        return [*self._accepted_forms(value), *self._left_out(value)]

    def _left_out(self, value: Any) -> list[str]:
        """Return [""] for the documented default, which may be left out, and [] for others."""
        is_default = self._has_usual_value and is_same_value(value, self.default)
        return [""] if is_default else []

    @property
    def _has_usual_value(self) -> bool:
        return not self.required and self.default is not MISSING

    def accepted_unsaid(self) -> list[Any]:
        """Return what is accepted of a parameter that a request does not mention."""
        return [""] if self.default is MISSING or self.default is None else ["", self.default]

    def spellings(self, value: Any) -> list[Any]:
        """Return a value in all forms that mean the same, each written out."""
        if isinstance(value, list) and self.item is not None:
            orders = permutations(value) if self._in_any_order(value) else [tuple(value)]
            spelled = (
                list(items)
                for order in orders
                for items in product(*(self.item.spellings(each) for each in order))
            )
            found: list[Any] = []
            for items in islice(spelled, MOST_SPELLINGS**2):
                if len(found) < MOST_SPELLINGS and items not in found:
                    found.append(items)
            return found
        return self._object_spellings(value) if self._is_object(value) else [value]

    def _object_spellings(self, value: Any) -> list[Any]:
        """Return an object in all forms, written out, as BFCL compares those within others."""
        keys = self._keys_of(value)
        choices: dict[str, list[Any]] = {}
        for name, kind in keys.items():
            if name in value:
                choices[name] = kind.spellings(value[name])
            if kind._has_usual_value and (name not in value or kind._left_out(value[name])):
                choices[name] = [*choices.get(name, [kind.default]), MISSING]
        every = (dict(zip(choices, each, strict=True)) for each in product(*choices.values()))
        forms = ({n: v for n, v in each.items() if v is not MISSING} for each in every)
        return list(islice(forms, MOST_SPELLINGS))

    def _accepted_forms(self, value: Any) -> list[Any]:
        if self._is_object(value):
            return self._accepted_objects(value)
        item = self.item
        if isinstance(value, list) and item and value and all(map(item._is_object, value)):
            each_form = [item._accepted_objects(each)[0] for each in value]
            if self._in_any_order(value):
                return [list(each) for each in permutations(each_form)]
            return [each_form]
        return self.spellings(value)

    def _accepted_objects(self, value: Mapping[str, Any]) -> list[Any]:
        keys = self._keys_of(value)
        said = {
            name: [*keys[name].spellings(each), *keys[name]._left_out(each)]
            for name, each in value.items()
        }
        unsaid = {
            name: each.accepted_unsaid()
            for name, each in keys.items()
            if name not in value and each._has_usual_value
        }
        return [{**said, **unsaid}]

    def _in_any_order(self, value: Sequence[Any]) -> bool:
        return not self.ordered and len(value) <= LONGEST_IN_ANY_ORDER

    def _is_object(self, value: Any) -> bool:
        return isinstance(value, dict) and bool(self._keys_of(value))

    def _keys_of(self, value: Mapping[str, Any]) -> Mapping[str, ArgumentKind]:
        """Return the kinds of an object's keys: of the first alternative that has them all."""
        for each in self.alternatives:
            if value.keys() <= each.properties.keys():
                return each.properties
        return self.properties if value.keys() <= self.properties.keys() else {}


KindTable = dict[tuple[str, str], ArgumentKind]
"""(Function, parameter) -> kind of its values."""


def is_same_value(one: Any, other: Any) -> bool:
    """Return whether two values are the same to a caller: True is not 1, 2 is 2.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


@cache
def value_pools() -> dict[str, list[str]]:
    """Return the tables of names, places and texts."""
    text = files("fctncalling.lab.own_api.kinds").joinpath("pools.json").read_text(encoding="utf-8")
    found: dict[str, list[str]] = json.loads(text)
    return found


def draw_scalar(kind: ArgumentKind, rng: random.Random) -> Any:
    """Return a value of a kind that is no array and no object."""
    if kind.values:
        return rng.choice(kind.values)
    if kind.kind in ("integer", "number", "quantity_with_unit"):
        return _number(kind, rng)
    if kind.kind == "boolean":
        return not kind.default if isinstance(kind.default, bool) else rng.random() < 0.6
    if kind.kind in ("date", "time", "datetime", "month", "year"):
        text = _moment(rng, kind.kind).strftime(kind.format)
        return int(text) if kind.type == "integer" else text
    if kind.kind == "identifier":
        return _identifier(kind, rng)
    if kind.known and rng.random() < 0.5:
        return rng.choice(kind.known)
    if kind.kind == "phone" and kind.pattern is not None:
        phone = _phone(rng)
        sound = matches_pattern(kind.pattern, phone)
        return phone if sound else text_of_pattern(kind.pattern, rng) or phone
    return _text(kind, rng)


def _number(kind: ArgumentKind, rng: random.Random) -> int | float:
    low = kind.minimum if kind.minimum is not None else min(1, kind.maximum or 1)
    high = kind.maximum if kind.maximum is not None else max(low * 4, low + 50)
    if kind.type == "integer":
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


def _identifier(kind: ArgumentKind, rng: random.Random) -> Any:
    if kind.known and rng.random() < 0.5:
        return rng.choice(kind.known)
    if kind.format == "uuid":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    if kind.type in ("integer", "float"):
        low, high = int(kind.minimum or 1), int(kind.maximum or 10**DIGITS)
        return rng.randint(low, max(low, high))
    if kind.pattern is not None and (found := text_of_pattern(kind.pattern, rng)):
        return found
    if kind.examples:
        return text_of_shape(str(rng.choice(kind.examples)), rng)
    letters = "".join(rng.choice("ABCDEFGHKLMNPRSTUVWX") for _ in range(rng.randint(1, 3)))
    return f"{letters}{rng.choice(('-', '', '-'))}{rng.randint(100, 9999)}"


def _text(kind: ArgumentKind, rng: random.Random) -> str:
    tables = value_pools()
    if kind.kind == "person_name":
        first, last = rng.choice(tables["first"]), rng.choice(tables["last"])
        whole = f"{first} {last}"
        if re.search(r"\bpart of (?:it|(?:the |a |his |her )?name)\b", kind.description.lower()):
            return rng.choice((whole, whole, last, last, first))
        return {"first": first, "last": last}.get(kind.topic, whole)
    if kind.kind == "email":
        who = f"{rng.choice(tables['first'])}.{rng.choice(tables['last'])}"
        return f"{_plain(who)}@{_plain(rng.choice(tables['word']))}.example"
    if kind.kind == "phone":
        return _phone(rng)
    if kind.kind == "url":
        return f"https://{_plain(rng.choice(tables['word']))}.example/{rng.choice(tables['word'])}"
    if kind.kind == "place":
        topic = kind.topic if kind.topic in tables else "city"
        place = rng.choice(tables[topic])
        return f"{place} {rng.randint(1, 140)}" if topic == "street" else place
    if kind.topic == "query" and may_name_creator(kind) and rng.random() < MAKERS_SHARE:
        return rng.choice(tables["last"])
    if kind.topic == "proper":
        return str(rng.choice(kind.examples + tuple(tables["word"]))).capitalize()
    if len(kind.examples) > 2:
        return str(rng.choice(kind.examples))
    if kind.topic in tables:
        return rng.choice(tables[kind.topic])
    return f"{rng.choice(tables['adjective'])} {rng.choice(tables['word'])}"


def may_name_creator(kind: ArgumentKind) -> bool:
    """Return whether words that are looked for may be the name of who made the thing."""
    makers = r"\b(?:author|artist|writer|composer|singer|band|director|painter)"
    return bool(re.search(makers, kind.description.lower()))


def _phone(rng: random.Random) -> str:
    country = rng.choice((31, 33, 39, 44, 46, 49))
    return f"+{country}{rng.randint(1, 9)}{rng.randrange(10**8, 10**9)}"


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", text.lower())
