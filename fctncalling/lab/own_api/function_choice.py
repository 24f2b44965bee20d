"""Choice of the functions that a request is offered: BM25 over their names and documents.

The client of a shipped model holds this very source: nothing but the standard library is imported.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

MOST_OFFERED = 12
MOST_CHARACTERS = 18_000  # of the documents in a prompt: 20,000 with instructions and request
NAME_WEIGHT, SATURATION, LENGTH_SHARE, FAMILY_WEIGHT = 4, 1.2, 0.6, 0.4
STOP_WORDS = frozenset(
    "a an the of to for in on at by with from and or is are be was were it its this that these "
    "those i me my we our you your he she they them their his her please can could would will "
    "want need like let do does did has have had hi hello thanks thank hey so if as not no there "
    "just also am been should may some any one which who whose where when how why than then".split()
)
FAMILIES = (
    "get show list find see look search fetch retrieve read view display check tell give what",
    "create add make new register open set book post insert start",
    "update change edit modify set adjust rename correct replace patch",
    "delete remove cancel drop erase clear discard revoke",
    "send share invite notify forward deliver",
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")


def stem(word: str) -> str:
    """Return a word without its English endings, roughly: "tries", "tried" and "try" are one."""
    for end, least in (("ies", 2), ("ied", 2), ("ing", 3), ("ed", 3), ("es", 3), ("s", 2)):
        if word.endswith(end) and len(word) - len(end) >= least and not word.endswith("ss"):
            word = word[: -len(end)] + "y" * end.startswith("i") * (end != "ing")
            break
    word = word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
    return word.rstrip("e") if len(word) > 3 else word


def stems(text: str) -> Iterator[str]:
    """Yield the stems of a text's words, those of camelCase and snake_case apart."""
    for word in _WORD.findall(text):
        if (low := word.lower()) not in STOP_WORDS:
            yield stem(low)


_ALIKE = {
    stem(word): {stem(each) for each in family.split()}
    for family in FAMILIES
    for word in family.split()
}


class FunctionChoice:
    """The functions of an API, as documents that a request is looked up in."""

    def __init__(self, functions: Sequence[Mapping[str, Any]], most: int = MOST_OFFERED) -> None:
        self.most = most
        self.size = len(functions)
        self.lengths = [prompt_length(each) for each in functions]
        self._weights = defaultdict[str, list[tuple[int, float]]](list)
        counts = [_counted(each) for each in functions]
        words = [sum(each.values()) for each in counts]
        mean = sum(words) / max(1, self.size)
        holders = Counter(word for each in counts for word in each)
        for number, count in enumerate(counts):
            flat = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * words[number] / mean)
            for word, times in count.items():
                rarity = math.log(1 + (self.size - holders[word] + 0.5) / (holders[word] + 0.5))
                weight = rarity * times * (SATURATION + 1) / (times + flat)
                self._weights[word].append((number, weight))

    @property
    def takes_all(self) -> bool:
        """Whether all functions are offered whatever is asked for."""
        return self.size <= self.most and sum(self.lengths) <= MOST_CHARACTERS

    def ranked(self, text: str) -> list[int]:
        """Return the numbers of the functions, the best for a text first, then by their order."""
        scores = [0.0] * self.size
        said = set(stems(text))
        alike = {each for word in said for each in _ALIKE.get(word, ())} - said
        for words, share in ((said, 1.0), (alike, FAMILY_WEIGHT)):
            for word in sorted(words):
                for number, weight in self._weights.get(word, ()):
                    scores[number] += share * weight
        return sorted(range(self.size), key=lambda each: -scores[each])

    def chosen(self, text: str) -> list[int]:
        """Return the numbers of the functions to offer with a text, in their order."""
        return self.fitting(range(self.size) if self.takes_all else self.ranked(text))

    def fitting(self, order: Iterable[int]) -> list[int]:
        """Return the first of an order that fit in a prompt, sorted."""
        kept, room = set[int](), MOST_CHARACTERS
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


def _counted(function: Mapping[str, Any]) -> Counter[str]:
    """Return how often a function's name and document have each word, its name's words more."""
    count: Counter[str] = Counter()
    for word in stems(function["name"]):
        count[word] += NAME_WEIGHT
    count.update(stems(" ".join(_texts(function))))
    return count


def _texts(function: Mapping[str, Any]) -> Iterator[str]:
    yield str(function["description"])
    for name, schema in function["parameters"].get("properties", {}).items():
        yield f"{name} {schema.get('description', '')}"
        yield " ".join(map(str, schema.get("enum", ())))
