"""Kinds of values: how those of a parameter are drawn, and which others are as right."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, permutations, product
from typing import Any

from fctncalling.lab.own_api.kinds.pattern_text import shape_pattern
from fctncalling.lab.own_api.kinds.scalar_kind import MISSING, UNSAID, ScalarKind
from fctncalling.lab.own_api.kinds.value_tables import other_forms

MOST_NAMED = 150  # values that one argument holds, for a request to name them all
LONGEST_IN_ANY_ORDER = 5  # items: 120 orders
MOST_SPELLINGS = 120
SEVERAL_OBJECTS_SHARE = 0.25  # of lists of objects that may have more than are demanded
KEY_SHARE = 0.35  # of optional keys of an object, which a request says


@dataclass(frozen=True)
class ArgumentKind(ScalarKind):
    """Kind of one parameter's values: of a single one, or array, object or one_of.

    Of an array `item` is the kind of its items, of an object `properties` are those of its keys, of
    one_of `alternatives` are its objects.
    """

    ordered: bool = False  # of an array: whether the order of its items matters
    min_items: int = 1
    max_items: int = 3
    item: ArgumentKind | None = None
    properties: Mapping[str, ArgumentKind] = field(default_factory=dict)
    alternatives: tuple[ArgumentKind, ...] = ()

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
        return self.kind not in UNSAID

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
            open_ones = [
                name
                for name, each in askable.items()
                if len(each.values) != 1 and (each.required or each.kind != "boolean")
            ]
            kept = [n for n, each in askable.items() if each.required]
            kept += [n for n in open_ones if n not in kept and rng.random() < KEY_SHARE]
            if open_ones and not {*kept} & {*open_ones}:
                kept.append(rng.choice(open_ones))
            names = [name for name in askable if name in kept]
            return {name: askable[name].draw(rng) for name in names or [rng.choice([*askable])]}
        if self.kind == "one_of":
            return rng.choice([each for each in self.alternatives if each.can_be_asked]).draw(rng)
        return self.draw_single(rng)

    def _draw_items(self, rng: random.Random) -> list[Any]:
        assert self.item is not None
        most = self.max_items
        if self.item.kind in ("object", "one_of") and rng.random() >= SEVERAL_OBJECTS_SHARE:
            most = self.min_items
        wanted = rng.randint(self.min_items, max(self.min_items, most))
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
        is_default = self._has_usual_value and is_same_value(value, self.usual_value)
        return [""] if is_default else []

    @property
    def usual_value(self) -> Any:
        """The documented default, else the only value that there is; MISSING for none."""
        is_only = self.default is MISSING and len(self.values) == 1
        return self.values[0] if is_only else self.default

    @property
    def _has_usual_value(self) -> bool:
        return not self.required and self.usual_value is not MISSING

    def accepted_unsaid(self) -> list[Any]:
        """Return the accepted values of a parameter that a request does not mention."""
        usual = self.usual_value
        if isinstance(usual, dict):  # whose keys have lists of values in a truth
            usual = {key: [each] for key, each in usual.items()}
        return [""] if usual is MISSING or usual is None else ["", usual]

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
        if self.kind == "datetime" and str(value).endswith("Z"):
            return [value, value[:-1], f"{value[:-1]}+00:00"]
        if isinstance(value, str):
            return [value, *other_forms(self.topic, value)]
        return self._object_spellings(value) if self._is_object(value) else [value]

    def _object_spellings(self, value: Any) -> list[Any]:
        """Return an object in all forms, written out, as BFCL compares those within others."""
        keys = self.keys_of(value)
        choices: dict[str, list[Any]] = {}
        for name, kind in keys.items():
            if name in value:
                choices[name] = kind.spellings(value[name])
            if kind._has_usual_value and (name not in value or kind._left_out(value[name])):
                choices[name] = [*choices.get(name, [kind.usual_value]), MISSING]
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
        keys = self.keys_of(value)
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
        return isinstance(value, dict) and bool(self.keys_of(value))

    def keys_of(self, value: Mapping[str, Any]) -> Mapping[str, ArgumentKind]:
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
