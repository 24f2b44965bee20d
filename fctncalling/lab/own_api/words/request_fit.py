"""RequestFit: scores how well a request's words, without its values, fit each function."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from fctncalling.lab.own_api.english import base_verb, is_plural, singular
from fctncalling.lab.own_api.function_choice import stem
from fctncalling.lab.own_api.words.doc_sentence import first_sentence
from fctncalling.lab.own_api.words.vocabulary import split_phrases, spoken_name, word_table

LEAD = 1.02  # by which the called functions are ahead of all others
_UNTELLING = frozenset(word_table("operations")["untelling"].split())
_CUES = {
    "end": r"\b(?:rid of|no longer|any ?more|can go|away)\b",
    "make": r"\bnew\b|\bset up\b|\bmissing\b",
    "change": r"\bneeds? an update\b|\bcorrections?\b",
}
_BEFORE_VERBS = frozenset(
    "you to i we please and so just kindly quickly wanna gotta need want me ahead somebody be help "
    "hi hello hey there morning afternoon evening ok well may can could would next say question "
    ". , : ; ! ? -".split()
) | {""}
_SORT_WEIGHT, _NUMBER_WEIGHT = 1.0, 0.3


def stems(text: str) -> list[str]:
    """Return the stems of a text's telling words, abbreviations in full."""
    return [stem(each) for each in spoken_name(text).split() if each not in _UNTELLING]


class RequestFit:
    """Functions by the stems of their names and first sentences."""

    def __init__(self, functions: Iterable[tuple[str, str, str]]) -> None:
        """`functions`: (name, description, path or "") of all."""
        self._tellings = {
            name: [each for each in _tellings(name, first_sentence(text), path) if each]
            for name, text, path in functions
        }
        counts = Counter(
            part for each in self._tellings.values() for part in frozenset().union(*each)
        )
        self._weights = {
            part: _SORT_WEIGHT
            if part.startswith("@")
            else math.log(1 + len(self._tellings) / count)
            * (_NUMBER_WEIGHT if part.endswith(("+", "-")) else 1)
            for part, count in counts.items()
        }
        self._totals: dict[str, list[float]] = {}
        self._having: dict[str, dict[str, list[int]]] = {}  # part -> function -> tellings with it
        for name, tellings in self._tellings.items():
            self._totals[name] = [sum(map(self._weights.__getitem__, each)) for each in tellings]
            for number, each in enumerate(tellings):
                for part in each:
                    self._having.setdefault(part, {}).setdefault(name, []).append(number)

    def scores(self, text: str, values: Iterable[Any], names: Collection[str]) -> dict[str, float]:
        """Return how well a request without its values fits functions, 0 to 1 each."""
        offered = frozenset(names)
        shared: dict[tuple[str, int], float] = {}
        named: set[tuple[str, int]] = set()
        total = 0.0
        asked = _asked(text, values)
        asked |= {p for part in asked - self._having.keys() for p in _synonym_parts(part)}
        for part in asked:
            functions = self._having.get(part, {})
            having = [
                (name, number) for name in offered & functions.keys() for number in functions[name]
            ]
            total += self._weights[part] if having else 0.0
            named.update(having if part[0] != "@" else ())
            for each in having:
                shared[each] = shared.get(each, 0.0) + self._weights[part]
        found = dict.fromkeys(names, 0.0)
        for (name, number), weight in shared.items():
            if (name, number) not in named:
                continue  # "Get 1rAeqf3": a verb alone names nothing
            fit = 2 * weight / (total + self._totals[name][number])
            found[name] = max(found[name], fit)
        return found

    def names_all(
        self, text: str, values: Iterable[Any], called: Collection[str], offered: Collection[str]
    ) -> bool:
        """Return whether the called functions score above all other offered ones.

        `values` are those said, and the names that some are said by.
        """
        scores = self.scores(text, values, offered)
        others = max((scores[name] for name in offered if name not in called), default=0.0)
        return min(scores[name] for name in called) > others * LEAD


@cache
def _synonym_parts(part: str) -> frozenset[str]:
    """Return the stems of words that mean what a stem's word does, with its mark of number."""
    plain = part.rstrip("+-")
    table = word_table("operations")
    verbs = [f"{verb} | {row}" for verb, row in table["verbs_alike"].items()]
    rows = map(split_phrases, [*table["nouns_alike"]["rows"], *verbs])
    stems_of_rows = ([stem(each.split(" ")[0]) for each in row] for row in rows)
    found = (each for row in stems_of_rows if plain in row for each in row)
    return frozenset(f"{each}{part.removeprefix(plain)}" for each in found)


def _tellings(name: str, sentence: str, path: str) -> Iterator[frozenset[str]]:
    """Yield stems of a function's name, of its first sentence, and of that with its path."""
    yield _telling(name)
    yield _telling(sentence)
    parts = path.split("/")
    owners = [part for part, behind in pairwise(parts) if behind[:1] == "{" and part[:1] != "{"]
    if owners:
        yield _telling(" ".join([sentence, *(singular(spoken_name(each)) for each in owners)]))


def _telling(text: str) -> frozenset[str]:
    """Return the parts of a name or sentence: stems, their numbers, and "@SORT" of its verb."""
    words = spoken_name(text.replace("'s", "")).split()
    sort = _sort(base_verb(words[0])) if words else ""
    return frozenset([*_parts(words[bool(sort) :]), *([f"@{sort}"] if sort else [])])


def _parts(words: Iterable[str]) -> Iterator[str]:
    """Yield stems, and each again with its number: "album", "album+" of albums, "album-"."""
    for word in words:
        if word not in _UNTELLING:
            yield stem(word)
            yield f"{stem(word)}{'+' if is_plural(word) else '-'}"


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
    words: list[str] = []
    sorts = {f"@{sort}" for sort, cue in _CUES.items() if re.search(cue, low)}
    before = ""
    plain = re.sub(r"'s\b|s'(?= )|[\w.:/@-]*[\d@][\w.:/@-]*", " ", text)
    for word in re.findall(r"[^\W_']+|[.,:;!?-]", plain.lower()):
        sort = _sort(base_verb(word)) if before in _BEFORE_VERBS else ""
        before = word
        if said[word]:
            said[word] -= 1
        elif sort:
            sorts.add(f"@{sort}")
        elif word.isalpha():
            words += spoken_name(word).split()
    if sorts > {"@look"}:
        sorts -= {"@look"}
    return {*_parts(words), *(sorts or {"@look"})}


def _value_words(value: Any) -> Iterator[str]:
    """Yield the words of a value, of all its parts and the names of these."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from spoken_name(name).split()
            yield from _value_words(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _value_words(each)
    elif isinstance(value, str):
        yield from spoken_name(value).split()
