"""Free texts that fit an API: names from its document, else texts made of its nouns.

Nobody searches train stations for solar panels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from random import Random
from typing import Any

from fctncalling.lab.own_api.english import is_plural, singular, spaced_words, things_of_path
from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind, KindTable
from fctncalling.lab.own_api.kinds.clues import kind_tables
from fctncalling.lab.own_api.kinds.evidence import example_texts
from fctncalling.lab.own_api.kinds.value_tables import value_table
from fctncalling.specification.api import OwnApi
from fctncalling.specification.schema import as_list

OF_ONE_API = frozenset({"query", "title", "thing", ""})
"""Topics of free texts that every API has others of."""
ENOUGH, MOST_VALUES, MOST_NOUNS = 8, 60, 8
FROM_NOUNS = "nouns of the API"
_NO_NOUNS = frozenset(
    "search query find list lookup look get create add update new edit set make post put delete "
    "remove filter browse fetch save batch bulk all me admin my invite rename upload remote".split()
)
_NO_THINGS = frozenset("object item data record resource entity thing element result value".split())


def with_fitting_texts(kinds: KindTable, api: OwnApi) -> KindTable:
    """Return kinds with free texts of the API: from its document, or of its nouns."""
    things = {doc.name: thing_of_function(doc.name, _path(api, doc.name)) for doc in api.functions}
    common = Counter(thing for thing in things.values() if thing)
    every = tuple(thing for thing, _ in common.most_common(MOST_NOUNS))
    return {
        key: _fitting(kind, key[1], things[key[0]], every, api.shown) for key, kind in kinds.items()
    }


def thing_of_function(name: str, path: str) -> str:
    """Return the noun of a function's path or name: "station" of /stations; "" for none."""
    for words in (*things_of_path(path)[::-1], spaced_words(name)):
        kept = [word for word in words.split() if word not in _NO_NOUNS]
        plural = next((at for at, word in enumerate(kept[:3]) if is_plural(word)), 2)
        noun = singular(" ".join(kept[: plural + 1]))  # "conversations set topic": conversation
        if len(noun) > 2 and noun not in _NO_THINGS and not re.search(r"\d", noun):
            return noun
    return ""


def _path(api: OwnApi, function: str) -> str:
    return str(api.origins.get(function, {}).get("path", "")).partition("?")[0]


def _fitting(
    kind: ArgumentKind,
    name: str,
    thing: str,
    every: Sequence[str],
    shown: Mapping[str, Sequence[str]],
) -> ArgumentKind:
    """Return a kind with texts of the API, in its items and keys too.

    Keys of objects say no thing of the function's: the name in a card is no payment's.
    """
    if kind.item is not None:
        return replace(kind, item=_fitting(kind.item, name, thing, every, shown))
    if kind.alternatives:
        inner = tuple(_fitting(each, name, thing, every, shown) for each in kind.alternatives)
        return replace(kind, alternatives=inner)
    if kind.properties:
        keys = kind.properties.items()
        of_keys = {key: _fitting(each, key, "", (), shown) for key, each in keys}
        return replace(kind, properties=of_keys)
    is_free = kind.kind == "free_text" and kind.topic in OF_ONE_API
    if not is_free or kind.known or len(kind.examples) > 2:
        return kind
    own = re.sub(r" ?(?:name|title|label|query|search|text)$", "", spaced_words(name))
    nouns = [noun for noun in (own, thing) if noun in shown or _table_of(noun)] or [thing]
    nouns = nouns if nouns[0] else [*every]
    given = [*kind.examples, *(text for noun in nouns for text in shown.get(noun, ()))]
    given = [text for text in dict.fromkeys(given) if kind.takes_single(text)][:MOST_VALUES]
    guessed: list[str] = []
    if len(given) < ENOUGH:
        lists = [_texts_of(noun, composed=len(given) < 3) for noun in nouns]
        every_text = dict.fromkeys(text for row in zip_longest(*lists) for text in row if text)
        guessed = [text for text in every_text if kind.takes_single(text)][:MOST_VALUES]
    if not given and not guessed:
        return replace(kind, guessed=True)
    if not guessed:
        topic = kind.topic if len(given) > 2 else "example"  # nothing else is drawn
        return replace(kind, examples=tuple(given), topic=topic, guessed=False, evidence="examples")
    evidence = f"examples, {FROM_NOUNS}" if given else FROM_NOUNS
    texts = (*given * (len(guessed) // max(1, 2 * len(given)) or 1), *guessed)  # a third are given
    return replace(kind, examples=texts, guessed=True, evidence=evidence)


@cache
def _texts_of(noun: str, *, composed: bool) -> tuple[str, ...]:
    """Return names of a thing: those of its sort, else ("Spring webhook") of the noun itself."""
    table = _table_of(noun)
    if table == "person":
        rng = Random(f"names of {noun}")
        first, last = value_table("first"), value_table("last")
        return tuple(f"{rng.choice(first)} {rng.choice(last)}" for _ in range(MOST_VALUES))
    if table:
        values = value_table(table)
        return tuple(Random(f"names of {noun}").sample(values, min(len(values), MOST_VALUES)))
    return tuple(f"{word} {noun}" for word in kind_tables()["modifiers"]) if composed else ()


@cache
def _table_of(noun: str) -> str:
    """Return the table of values that name a thing: "city" of a station; "" for none."""
    last = noun.rpartition(" ")[2]
    rows: Mapping[str, str] = kind_tables()["names_of_things"]
    return next((table for table, nouns in rows.items() if last in nouns.split()), "")


MOST_SHOWN, DEEPEST = 40, 5
_NAMES = frozenset("name title label headline subject".split()) | {"display name", "full name"}
_WRAPPERS = frozenset("data item result value record entry element content embedded".split())
_FOR_PEOPLE = re.compile(
    r"(?=.*[a-z]{3})(?!.*(?:://|@|_|\d{4}|foo|lorem|hello ?world))(?!(?:string|text|name)$).+",
    re.IGNORECASE,
)


def shown_names(document: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the names in examples of schemas and answers, by the noun of the named thing."""
    found: dict[str, dict[str, None]] = {}
    for noun, value in (*_of_schemas(document), *_of_answers(document)):
        kept = found.setdefault(noun, {})
        for text in example_texts({"examples": [value]}):
            if _FOR_PEOPLE.fullmatch(text) and len(kept) < MOST_SHOWN:
                kept[text] = None
    return {noun: tuple(names) for noun, names in found.items() if names}


def _of_schemas(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for schemas in (document.get("definitions"), _part(document.get("components"), "schemas")):
        for name, schema in _items(schemas):
            for part in (schema, *as_list(_part(schema, "allOf"))):
                for key, own in _items(_part(part, "properties")):
                    if spaced_words(key) in _NAMES:
                        for value in (_part(own, "example"), *as_list(_part(own, "examples"))):
                            yield singular(spaced_words(name)), value


def _of_answers(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, item in _items(document.get("paths")):
        for _, operation in _items(item):
            for _, answer in _items(_part(operation, "responses")):
                for _, media in _items(_part(answer, "content")):
                    named = [_part(each, "value") for _, each in _items(_part(media, "examples"))]
                    for value in (_part(media, "example"), *named):
                        yield from _of_value(value, singular("".join(things_of_path(path)[-1:])), 0)


def _of_value(value: Any, thing: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > DEEPEST:
        return
    for item in as_list(value)[:MOST_SHOWN]:
        yield from _of_value(item, thing, depth + 1)
    for key, inner in _items(value):
        words = singular(spaced_words(key))
        if isinstance(inner, str) and words in _NAMES:
            yield thing, inner
        elif isinstance(inner, list | Mapping):
            yield from _of_value(inner, thing if words in _WRAPPERS else words, depth + 1)


def _part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _items(value: Any) -> list[tuple[str, Any]]:
    return [(str(key), own) for key, own in value.items()] if isinstance(value, Mapping) else []
