"""Offers: the functions that a forged task names, a few of a large API's.

Half of them are chosen by a request alone, as the client of a shipped model does it; the others
are near misses of a called function and some far ones. Tasks to learn from share an offer with
some others, so that training reads its documents once for all of them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from random import Random
from typing import Any, NamedTuple

from fctncalling.lab.own_api.function_choice import (
    LONG_REQUEST,
    FunctionChoice,
    stems,
)
from fctncalling.specification.api import OwnApi

CHOSEN_SHARE = 0.5
TASKS_AN_OFFER = 16  # a step of training or two
NEAREST = 9  # functions whose names and documents are next to a called one's
NEAR_BY_NOUN, NEAR_BY_VERB = 5, 3  # of an offer
LONGEST_DOCUMENT = 1_100  # characters as JSON, of a large API; longer ones are shortened
SHORTENED = ((400, 200), (160, 60), (80, 20), (40, 10), (0, 10))
"""What is left of a long document in turn: characters of a description, values of an enum."""
FIRST_WORDS = 200  # characters of a function's own description that always stay


class OfferedFunctions(NamedTuple):
    """Functions of a task, as entries have them, and how they were drawn."""

    docs: list[dict[str, Any]]
    how: str = ""  # "chosen" or "near"; "" where all are offered


class FunctionOffers:
    """Functions of an API and the offers that are drawn of them."""

    def __init__(self, api: OwnApi, most: int) -> None:
        docs: list[dict[str, Any]] = [
            {"name": each.name, "description": each.description, "parameters": each.parameters}
            for each in api.functions
        ]
        self.num_shortened = 0
        self.how = ""  # how a part was drawn
        if not FunctionChoice(docs, most).takes_all:
            whole, docs = docs, [_shortened(each) for each in docs]
            self.num_shortened = sum(map(dict.__ne__, docs, whole))
        self.docs = docs
        self.choice = FunctionChoice(docs, most)
        self._numbers = {each["name"]: number for number, each in enumerate(docs)}
        self._of_verb = defaultdict[str, list[int]](list)
        for number, name in enumerate(self._numbers):
            self._of_verb[_verb(name)].append(number)
        self._near = cache(self._ranked_near)

    def too_long(self) -> dict[str, str]:
        """Return the functions that no prompt has room for, with why."""
        return {
            name: f"its document has {length:,} characters, a prompt {self.choice.characters:,}"
            for name, length in zip(self._numbers, self.choice.lengths, strict=True)
            if length + LONG_REQUEST > self.choice.characters and not self.choice.takes_all
        }

    def notes(self) -> list[str]:
        """Return notes for the user on shortened documents."""
        told = f"documents are shortened to about {LONGEST_DOCUMENT:,} characters"
        return [f"{self.num_shortened} {told}"] if self.num_shortened else []

    def drawn(
        self,
        text: str,
        called: Sequence[str],
        rng: Random,
        *,
        about: str = "",
        without: Collection[str] = (),
    ) -> OfferedFunctions:
        """Draw the functions offered with a request: those it calls and distractors.

        `about`: the function that a request to be declined is near to; `without`: none of these.
        """
        if self.choice.takes_all:
            return OfferedFunctions([each for each in self.docs if each["name"] not in without])
        if rng.random() < CHOSEN_SHARE:
            return self.chosen(text, called, without)
        order = self._near_and_far([*called] or [about or rng.choice([*self._numbers])], rng)
        return OfferedFunctions(self._offered(text, called, order, without), "near")

    def part(self, function: str, request: str, rng: Random) -> FunctionOffers:
        """Return the offer that many tasks share: a function and others.

        Those are chosen by the request for it, or near to it where there is no request ("").
        """
        order = self.choice.ranked(request) if request else self._near_and_far([function], rng)
        part = copy(self)
        part.docs = self._offered(" " * LONG_REQUEST, [function], order, ())
        part.choice = FunctionChoice(part.docs, self.choice.most, self.choice.characters)
        part.how = "chosen" if request else "near"
        return part

    def chosen(
        self, text: str, called: Sequence[str], without: Collection[str] = ()
    ) -> OfferedFunctions:
        """Return the functions chosen by BM25 from the request, and those that it calls."""
        if self.choice.takes_all:
            return OfferedFunctions(self.docs)
        order = self.choice.ranked(text)
        return OfferedFunctions(self._offered(text, called, order, without), "chosen")

    def _offered(
        self, text: str, called: Sequence[str], order: Iterable[int], without: Collection[str]
    ) -> list[dict[str, Any]]:
        first = [self._numbers[name] for name in called]
        hidden = {self._numbers[name] for name in without}
        order = (each for each in (*first, *order) if each not in hidden)
        kept = self.choice.fitting(order, text)
        return [self.docs[number] for number in kept]

    def _near_and_far(self, names: Sequence[str], rng: Random) -> Iterator[int]:
        """Yield functions near to some, by noun and by verb, then any."""
        for name in names:
            near, same = self._near(name), self._of_verb[_verb(name)]
            yield from rng.sample(near, min(NEAR_BY_NOUN, len(near)))
            yield from rng.sample(same, min(NEAR_BY_VERB, len(same)))
        yield from rng.sample(range(self.choice.size), min(4 * self.choice.most, self.choice.size))

    def _ranked_near(self, name: str) -> list[int]:
        """Return the functions most similar to one by name and document."""
        number = self._numbers[name]
        ranked = self.choice.ranked(f"{name} {self.docs[number]['description'][:FIRST_WORDS]}")
        return [each for each in ranked[: NEAREST + 1] if each != number][:NEAREST]


def _verb(name: str) -> str:
    return next(stems(name), name)


def _shortened(doc: dict[str, Any]) -> dict[str, Any]:
    """Return a function document with long descriptions and enums shortened."""
    for most, values in SHORTENED:
        if len(json.dumps(doc)) <= LONGEST_DOCUMENT:
            break
        description = _cut(doc["description"], max(most, FIRST_WORDS))
        parameters = _cut_inside(doc["parameters"], most, values)
        doc = {**doc, "description": description, "parameters": parameters}
    return doc


def _cut_inside(schema: Any, most: int, values: int) -> Any:
    """Return a schema with descriptions and enums cut to a maximum length.

    A longer enum is left out.
    """
    if not isinstance(schema, Mapping):
        return schema
    cut = {**schema}
    if len(cut.get("enum", ())) > values:
        del cut["enum"]
    if "description" in cut and not most:
        del cut["description"]
    elif "description" in cut:
        cut["description"] = _cut(cut["description"], most)
    if "properties" in cut:
        inner = cut["properties"].items()
        cut["properties"] = {name: _cut_inside(each, most, values) for name, each in inner}
    return cut | ({"items": _cut_inside(cut["items"], most, values)} if "items" in cut else {})


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 4].rpartition(' ')[0]} ..."
