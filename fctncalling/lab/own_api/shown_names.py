"""Names of things that an OpenAPI document shows: "Gare du Nord" of a station, by noun."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fctncalling.lab.own_api.english import singular
from fctncalling.lab.own_api.kinds.clues import name_words
from fctncalling.lab.own_api.kinds.examples import example_texts
from fctncalling.specification.schema import as_list

MOST_SHOWN, DEEPEST = 40, 5
_NAMES = frozenset("name title label headline subject".split()) | {"display name", "full name"}
_WRAPPERS = frozenset("data item result value record entry element content embedded".split())
_FOR_PEOPLE = re.compile(
    r"(?=.*[a-z]{3})(?!.*(?:://|@|_|\d{4}|foo|lorem|hello ?world))(?!(?:string|text|name)$).+",
    re.IGNORECASE,
)


def shown_names(document: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the names in examples of schemas and answers, by the noun of what they name."""
    found: dict[str, dict[str, None]] = {}
    for noun, value in (*_of_schemas(document), *_of_answers(document)):
        kept = found.setdefault(noun, {})
        for text in example_texts({"examples": [value]}):
            if _FOR_PEOPLE.fullmatch(text) and len(kept) < MOST_SHOWN:
                kept[text] = None
    return {noun: tuple(names) for noun, names in found.items() if names}


def thing_of_path(path: str) -> str:
    """Return what a path is about: "train station" of /train-stations/{id}."""
    parts = [part for part in path.split("/") if part and "{" not in part]
    words = [name_words(part) for part in parts if not re.fullmatch(r"v?[\d.]+|api|rest", part)]
    return singular(words[-1]) if words else ""


def _of_schemas(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for schemas in (document.get("definitions"), _part(document.get("components"), "schemas")):
        for name, schema in _items(schemas):
            for part in (schema, *as_list(_part(schema, "allOf"))):
                for key, own in _items(_part(part, "properties")):
                    if name_words(key) in _NAMES:
                        for value in (_part(own, "example"), *as_list(_part(own, "examples"))):
                            yield singular(name_words(name)), value


def _of_answers(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, item in _items(document.get("paths")):
        for _, operation in _items(item):
            for _, answer in _items(_part(operation, "responses")):
                for _, media in _items(_part(answer, "content")):
                    named = [_part(each, "value") for _, each in _items(_part(media, "examples"))]
                    for value in (_part(media, "example"), *named):
                        yield from _of_value(value, thing_of_path(path), 0)


def _of_value(value: Any, thing: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > DEEPEST:
        return
    for item in as_list(value)[:MOST_SHOWN]:
        yield from _of_value(item, thing, depth + 1)
    for key, inner in _items(value):
        words = singular(name_words(key))
        if isinstance(inner, str) and words in _NAMES:
            yield thing, inner
        elif isinstance(inner, list | Mapping):
            yield from _of_value(inner, thing if words in _WRAPPERS else words, depth + 1)


def _part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _items(value: Any) -> list[tuple[str, Any]]:
    return [(str(key), own) for key, own in value.items()] if isinstance(value, Mapping) else []
