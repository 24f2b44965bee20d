"""Choice of the functions that a request is offered: BM25 over their names and documents.

The client of a shipped model holds this very source: nothing but the standard library is imported.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

MOST_OFFERED = 12
CHARACTERS_EACH = 1_550  # of twelve documents and a request: with instructions 20,000
LONG_REQUEST = 1_000  # characters
NAME_WEIGHT, SATURATION, LENGTH_SHARE = 4, 1.2, 0.75
STOP_WORDS = frozenset(
    "a an the of to for in on at by with from and or is are be was were it its this that these "
    "those i me my we our you your he she they them their his her please can could would will "
    "want need like let do does did has have had hi hello thanks thank hey so if as not no there "
    "just also am been should may some any one which who whose where when how why than then".split()
)
FAMILIES = (
    "create add make new open insert start",
    "update change edit modify set rename replace patch correct",
    "delete remove cancel rid drop erase",
)
FAMILY_WEIGHT = 0.4  # of a word that is not said, but one of its family
_CODE = re.compile(r"(?=[^\W_]{6})[^\W_]*\d[^\W\d_][^\W_]*")  # "3eDDFJIjmd": of no words
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")


class FunctionChoice:
    """The functions of an API, as documents that a request is looked up in."""

    def __init__(
        self,
        functions: Sequence[Mapping[str, Any]],
        most: int = MOST_OFFERED,
        characters: float | None = None,
    ) -> None:
        self.most = most
        self.characters = characters or CHARACTERS_EACH * max(most, MOST_OFFERED)
        self.size = len(functions)
        self._functions = functions
        self.lengths = [prompt_length(each) for each in functions]

    @property
    def takes_all(self) -> bool:
        """Whether all functions are offered whatever is asked for."""
        fits = sum(self.lengths) + LONG_REQUEST <= self.characters
        return fits and self.size <= self.most

    @cached_property
    def _found(self) -> Mapping[str, Sequence[tuple[int, float, float]]]:
        """By stem: functions, its weight in each, and its share of the name."""
        found = defaultdict[str, list[tuple[int, float, float]]](list)
        names = [{*stems(each["name"])} for each in self._functions]
        counts = [function_stems(each) for each in self._functions]
        mean = sum(each.total() for each in counts) / max(1, self.size) or 1.0
        holders = Counter(word for each in counts for word in each)
        rarity = {
            word: math.log(1 + (self.size - each + 0.5) / (each + 0.5))
            for word, each in holders.items()
        }
        for number, (name, count) in enumerate(zip(names, counts, strict=True)):
            flat = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * count.total() / mean)
            whole = sum(rarity[word] for word in name)
            for word, times in count.items():
                weight = rarity[word] * times * (SATURATION + 1) / (times + flat)
                share = rarity[word] / whole if word in name else 0.0
                found[word].append((number, weight, share))
        return found

    def ranked(self, text: str) -> list[int]:
        """Return the numbers of the functions, the best for a text first, then by their order.

        BM25, times one and the share of its name that the text says; verbs of a family stand for
        each other, a little.
        """
        scores, shares = [0.0] * self.size, [1.0] * self.size
        said = dict.fromkeys(sorted({*stems(text)}), 1.0)
        alike = {each for word in said for each in _ALIKE.get(word, ()) if each not in said}
        for word, part in (said | dict.fromkeys(sorted(alike), FAMILY_WEIGHT)).items():
            for number, weight, share in self._found.get(word, ()):
                scores[number] += part * weight
                shares[number] += part * share
        return sorted(range(self.size), key=lambda each: -scores[each] * shares[each])

    def chosen(self, text: str) -> list[int]:
        """Return the numbers of the functions to offer with a text, in their order."""
        return [*range(self.size)] if self.takes_all else self.fitting(self.ranked(text), text)

    def fitting(self, order: Iterable[int], text: str) -> list[int]:
        """Return the first of an order that have room in a prompt beside a text, sorted."""
        kept, room = set[int](), self.characters - len(text)
        for number in order:
            if number not in kept and self.lengths[number] <= room:
                kept.add(number)
                room -= self.lengths[number]
                if len(kept) == self.most:
                    break
        return sorted(kept)


def prompt_length(function: Mapping[str, Any]) -> int:
    """Return how many characters a function's document has in BFCL's prompt, the longest one."""
    shown = {key: function[key] for key in ("name", "description", "parameters")}
    return len(json.dumps([shown], indent=4))


def stems(text: str) -> Iterator[str]:
    """Yield the stems of a text's words, those of camelCase and snake_case apart."""
    for word in _WORD.findall(_CODE.sub(" ", text)):
        if (low := word.lower()) not in STOP_WORDS:
            yield stem(low)


_ENDS = ((("ies", 2), ("es", 3), ("s", 2)), (("ied", 2), ("ing", 3), ("ed", 3)))
"""English endings of nouns, then of verbs, and how many letters stand before them at least."""


def stem(word: str) -> str:
    """Return a word without its endings, roughly: "bookings", "booked", "book" are one."""
    for ends in _ENDS:
        for end, least in ends:
            if word.endswith(end) and len(word) - len(end) >= least and word[-2:] not in _NO_PLURAL:
                word = word[: -len(end)] + ("y" if end in ("ies", "ied") else "")
                break
    word = word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
    return word.rstrip("e") if len(word) > 3 else word


_NO_PLURAL = ("ss", "us", "is")
_ALIKE = {
    stem(word): [stem(each) for each in family.split()]
    for family in FAMILIES
    for word in family.split()
}


def function_stems(function: Mapping[str, Any]) -> Counter[str]:
    """Return how often a function's name and document have each stem, its name's ones more."""
    count = Counter(dict.fromkeys(stems(function["name"]), NAME_WEIGHT))
    count.update(stems(function["description"]))
    for name, schema in function["parameters"].get("properties", {}).items():
        values = " ".join(map(str, schema.get("enum", ())))
        count.update(stems(f"{name} {schema.get('description', '')} {values}"))
    return count
