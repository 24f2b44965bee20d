"""Free texts that fit an API: names from its document, else texts made of its nouns.

Nobody searches train stations for solar panels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from random import Random

from fctncalling.lab.own_api.english import is_plural, singular, spaced_words, things_of_path
from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind, KindTable
from fctncalling.lab.own_api.kinds.clues import kind_tables
from fctncalling.lab.own_api.kinds.value_tables import value_table
from fctncalling.specification.api import OwnApi

OF_ONE_API = frozenset({"query", "title", "thing", ""})
"""Topics of free texts that every API has others of."""
MOST_VALUES, MOST_NOUNS = 60, 8
FROM_NOUNS = "nouns of the API"
_NO_NOUNS = frozenset(
    "search query find list lookup look get create add update new edit set make post put delete "
    "remove filter browse fetch save batch bulk all me admin my invite rename upload remote".split()
)
_NO_THINGS = frozenset("object item data record resource entity thing element result value".split())


def with_fitting_texts(kinds: KindTable, api: OwnApi) -> KindTable:
    """Return kinds with free texts of the API: from its document, or of its nouns."""
    paths = {
        name: str(each.get("path", "")).partition("?")[0] for name, each in api.origins.items()
    }
    things = {e.name: thing_of_function(e.name, paths.get(e.name, "")) for e in api.functions}
    common = Counter(thing for thing in things.values() if thing)
    every = tuple(thing for thing, _ in common.most_common(MOST_NOUNS))
    return {key: _fitting(kind, key[1], things[key[0]], every) for key, kind in kinds.items()}


def thing_of_function(name: str, path: str) -> str:
    """Return the noun of a function's path or name: "station" of /stations; "" for none."""
    for words in (*things_of_path(path)[::-1], spaced_words(name)):
        kept = [word for word in words.split() if word not in _NO_NOUNS]
        plural = next((at for at, word in enumerate(kept[:3]) if is_plural(word)), 2)
        noun = singular(" ".join(kept[: plural + 1]))  # "conversations set topic": conversation
        if len(noun) > 2 and noun not in _NO_THINGS and not re.search(r"\d", noun):
            return noun
    return ""


def _fitting(kind: ArgumentKind, name: str, thing: str, every: Sequence[str]) -> ArgumentKind:
    """Return a kind with texts of the API, in its items and keys too.

    Keys of objects say no thing of the function's: the name in a card is no payment's.
    """
    if kind.item is not None:
        return replace(kind, item=_fitting(kind.item, name, thing, every))
    if kind.alternatives:
        inner = tuple(_fitting(each, name, thing, every) for each in kind.alternatives)
        return replace(kind, alternatives=inner)
    if kind.properties:
        of_keys = {key: _fitting(each, key, "", ()) for key, each in kind.properties.items()}
        return replace(kind, properties=of_keys)
    is_free = kind.kind == "free_text" and kind.topic in OF_ONE_API
    if not is_free or kind.known or len(kind.examples) > 2:
        return kind
    own = re.sub(r" ?(?:name|title|label|query|search|text)$", "", spaced_words(name))
    nouns = [noun for noun in (own, thing) if _table_of(noun)] or ([thing] if thing else every)
    given = [*kind.examples]
    lists = [_texts_of(noun) for noun in nouns]
    every_text = dict.fromkeys(text for row in zip_longest(*lists) for text in row if text)
    guessed = [text for text in every_text if kind.takes_single(text)][:MOST_VALUES]
    if not guessed:
        return kind if given else replace(kind, guessed=True)
    evidence = f"examples, {FROM_NOUNS}" if given else FROM_NOUNS
    texts = (*given * (len(guessed) // max(1, 2 * len(given)) or 1), *guessed)  # a third are given
    return replace(kind, examples=texts, guessed=True, evidence=evidence)


@cache
def _texts_of(noun: str) -> tuple[str, ...]:
    """Return names of a thing: those of its sort, else ("Spring webhook") of the noun itself."""
    if table := _table_of(noun):
        values = value_table("last" if table == "person" else table)
        return tuple(Random(f"names of {noun}").sample(values, min(len(values), MOST_VALUES)))
    return tuple(f"{word} {noun}" for word in kind_tables()["modifiers"])


@cache
def _table_of(noun: str) -> str:
    """Return the table of values that name a thing: "city" of a station; "" for none."""
    last = noun.rpartition(" ")[2]
    rows: Mapping[str, str] = kind_tables()["names_of_things"]
    return next((table for table, nouns in rows.items() if last in nouns.split()), "")
