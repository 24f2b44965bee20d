"""ArgumentKind: how the values of one parameter are drawn, and which others are as right."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice, permutations, product
from typing import Any, Final

from fctncalling.lab.own_api.kinds.draw_value import draw_scalar

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

    @property
    def can_be_asked(self) -> bool:
        """Whether a request can name values of it."""
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
        found = self._accepted_forms(value)
        if not self.required and self.default is not MISSING and is_same_value(value, self.default):
            found = [*found, ""]
        return found

    def accepted_unsaid(self) -> list[Any]:
        """Return what is accepted of a parameter that a request does not mention."""
        return [""] if self.default is MISSING or self.default is None else ["", self.default]

    def spellings(self, value: Any) -> list[Any]:
        """Return a value in all forms that mean the same, each written out."""
        if isinstance(value, list) and self.item is not None:
            orders = (
                permutations(value)
                if not self.ordered and len(value) <= LONGEST_IN_ANY_ORDER
                else [tuple(value)]
            )
            found: list[Any] = []
            for order in orders:
                for items in product(*(self.item.spellings(each) for each in order)):
                    if len(found) < MOST_SPELLINGS and list(items) not in found:
                        found.append(list(items))
            return found
        if not self._is_object(value):
            return [value]
        fields_of: Any = value
        return self._object_spellings(fields_of)

    def _object_spellings(self, value: Mapping[str, Any]) -> list[Any]:
        """Return an object in all forms, written out, as BFCL compares those within others."""
        keys = self._keys_of(value)
        choices: dict[str, list[Any]] = {}
        for name, kind in keys.items():
            if name in value:
                choices[name] = kind.spellings(value[name])
            may_be_left_out = not kind.required and kind.default is not MISSING
            if may_be_left_out and (name not in value or is_same_value(value[name], kind.default)):
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
            any_order = not self.ordered and len(value) <= LONGEST_IN_ANY_ORDER
            return [list(each) for each in permutations(each_form)] if any_order else [each_form]
        return self.spellings(value)

    def _accepted_objects(self, value: Mapping[str, Any]) -> list[Any]:
        keys = self._keys_of(value)
        said = {name: keys[name]._accepted_within(each) for name, each in value.items()}
        unsaid = {
            name: each.accepted_unsaid()
            for name, each in keys.items()
            if name not in value and not each.required and each.default is not MISSING
        }
        return [{**said, **unsaid}]

    def _accepted_within(self, value: Any) -> list[Any]:
        """Return what is accepted of a key of an object: what may be left out is a "" of it."""
        may_be_left_out = not self.required and self.default is not MISSING
        end = [""] if may_be_left_out and is_same_value(value, self.default) else []
        return [*self.spellings(value), *end]

    def _is_object(self, value: Any) -> bool:
        return isinstance(value, dict) and bool(self._keys_of(value))

    def _keys_of(self, value: Mapping[str, Any]) -> Mapping[str, ArgumentKind]:
        """Return the kinds of an object's keys: of the first alternative that has them all."""
        for each in self.alternatives:
            if value.keys() <= each.properties.keys():
                return each.properties
        return self.properties if value.keys() <= self.properties.keys() else {}


def is_same_value(one: Any, other: Any) -> bool:
    """Return whether two values are the same to a caller: True is not 1, 2 is 2.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)
