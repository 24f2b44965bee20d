"""RequestFit: which function a request fits best by its words alone, without the values in it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from fctncalling.lab.own_api.words.doc_sentence import first_sentence
from fctncalling.lab.own_api.words.operation import spoken_name
from fctncalling.lab.own_api.words.vocabulary import base_verb, singular, word_table

LEAD = 1.02  # by which the called functions are ahead of all others
_UNTELLING = frozenset(
    "a an the of for to from in on at by with without about and or is are was be been it its this "
    "that these those i me my we us our you your he she they can could would will may please all "
    "any some one single given specific specified particular certain existing as so not no do does "
    "have has had if when what which who there here just need want like now by using via per also "
    "id ids api endpoint returns return http list lists".split()
)
_CUES = {
    "end": r"\b(?:rid of|no longer|any ?more|can go|away)\b",
    "make": r"\bnew\b|\bset up\b|\bmissing\b",
    "change": r"\bneeds? an update\b|\bcorrections?\b",
}
_SORT_WEIGHT = 1.0


@cache
def stem(word: str) -> str:
    """Return a word without its ending: "deleted", "deletes" and "delete" give the same."""
    word = singular(word)
    for ending in ("ations", "ation", "ions", "ion", "ing", "ed", "er", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word


def stems(text: str) -> list[str]:
    """Return the stems of a text's telling words, abbreviations in full."""
    return [stem(each) for each in spoken_name(text).split() if each not in _UNTELLING]


class RequestFit:
    """Functions by the stems of their names and first sentences."""

    def __init__(self, functions: Iterable[tuple[str, str]]) -> None:
        """`functions`: (name, description) of all."""
        self._tellings = {
            name: [each for each in (_telling(name), _telling(first_sentence(text))) if each]
            for name, text in functions
        }
        counts = Counter(
            part for each in self._tellings.values() for part in frozenset().union(*each)
        )
        self._weights = {
            part: _SORT_WEIGHT
            if part.startswith("@")
            else math.log(1 + len(self._tellings) / count)
            for part, count in counts.items()
        }
        self._totals: dict[str, list[float]] = {}
        self._having: dict[str, list[tuple[str, int]]] = {}  # part -> (function, telling) with it
        for name, tellings in self._tellings.items():
            self._totals[name] = [sum(map(self._weights.__getitem__, each)) for each in tellings]
            for number, each in enumerate(tellings):
                for part in each:
                    self._having.setdefault(part, []).append((name, number))

    def scores(self, text: str, values: Iterable[Any], names: Collection[str]) -> dict[str, float]:
        """Return how well a request without its values fits functions, 0 to 1 each."""
        offered = frozenset(names)
        shared: dict[tuple[str, int], float] = {}
        total = 0.0
        for part in _asked(text, values):
            having = [each for each in self._having.get(part, ()) if each[0] in offered]
            total += self._weights[part] if having else 0.0
            for each in having:
                shared[each] = shared.get(each, 0.0) + self._weights[part]
        found = dict.fromkeys(names, 0.0)
        for (name, number), weight in shared.items():
            fit = 2 * weight / (total + self._totals[name][number])
            found[name] = max(found[name], fit)
        return found

    def names_all(
        self, text: str, values: Iterable[Any], called: Collection[str], offered: Collection[str]
    ) -> bool:
        """Return whether the called functions fit a request better than all others on offer."""
        scores = self.scores(text, values, offered)
        others = max((scores[name] for name in offered if name not in called), default=0.0)
        return min(scores[name] for name in called) > others * LEAD


def _telling(text: str) -> frozenset[str]:
    """Return the stems of a name or sentence, and "@SORT" of its verb."""
    words = spoken_name(text).split()
    sort = _sort(base_verb(words[0])) if words else ""
    parts = {stem(each) for each in words if each not in _UNTELLING and not _sort(each)}
    return frozenset(parts | ({f"@{sort}"} if sort else set()))


@cache
def _sort(verb: str) -> str:
    """Return the sort of a verb: look, make, change, end; "" for a verb that tells by itself."""
    for sort, verbs in word_table("operations")["verbs"].items():
        if verb in verbs.split():
            return "look" if sort == "search" else str(sort)
    return ""


def _asked(text: str, values: Iterable[Any]) -> set[str]:
    said = Counter(word for value in values for word in _value_words(value))
    low = text.lower()
    words = []
    for word in spoken_name(re.sub(r"[\w.:/@-]*[\d@][\w.:/@-]*", " ", text)).split():
        if said[word]:
            said[word] -= 1
        else:
            words.append(word)
    sorts = {f"@{sort}" for sort, cue in _CUES.items() if re.search(cue, low)}
    sorts = sorts or {f"@{_sort(base_verb(word))}" for word in words} - {"@"}
    if sorts > {"@look"}:
        sorts -= {"@look"}
    return {stem(word) for word in words if word not in _UNTELLING} | (sorts or {"@look"})


def _value_words(value: Any) -> Iterator[str]:
    """Yield the words of a value, of all its parts."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _value_words(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _value_words(each)
    elif isinstance(value, str):
        yield from spoken_name(value).split()
