"""Names of things that an OpenAPI document shows: "Gare du Nord" of a station, by noun."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fctncalling.lab.own_api.english import singular
from fctncalling.lab.own_api.kinds.clues import name_words
from fctncalling.lab.own_api.kinds.examples import example_texts

MOST_SHOWN, DEEPEST = 40, 5
_NAMES = frozenset("name title label headline subject".split()) | {"display name", "full name"}
_WRAPPERS = frozenset("data item result value record entry element content embedded".split())
_FOR_PEOPLE = re.compile(r"(?=.*[A-Za-z]{3})(?!.*(?:://|@|_|\d{4}))(?!(?:string|text|name)$).+")


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
    components = document.get("components")
    every = [document.get("definitions"), _part(components, "schemas")]
    for schemas in (each for each in every if isinstance(each, Mapping)):
        for name, schema in schemas.items():
            parts = _part(schema, "allOf")
            for part in (schema, *(parts if isinstance(parts, list) else ())):
                properties = _part(part, "properties")
                for key, own in properties.items() if isinstance(properties, Mapping) else ():
                    if name_words(str(key)) in _NAMES:
                        noun = singular(name_words(str(name)))
                        examples = _part(own, "examples")
                        listed = examples if isinstance(examples, list) else []
                        for value in (_part(own, "example"), *listed):
                            yield noun, value


def _of_answers(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, Mapping) else ():
        thing = thing_of_path(str(path))
        for operation in item.values() if isinstance(item, Mapping) else ():
            responses = _part(operation, "responses")
            for answer in responses.values() if isinstance(responses, Mapping) else ():
                content = _part(answer, "content")
                for media in content.values() if isinstance(content, Mapping) else ():
                    examples = _part(media, "examples")
                    named = examples.values() if isinstance(examples, Mapping) else ()
                    for value in (_part(media, "example"), *(_part(e, "value") for e in named)):
                        yield from _of_value(value, thing, 0)


def _of_value(value: Any, thing: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > DEEPEST:
        return
    if isinstance(value, list):
        for item in value[:MOST_SHOWN]:
            yield from _of_value(item, thing, depth + 1)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            words = singular(name_words(str(key)))
            if isinstance(inner, str) and words in _NAMES:
                yield thing, inner
            elif isinstance(inner, list | Mapping):
                yield from _of_value(inner, thing if words in _WRAPPERS else words, depth + 1)


def _part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None
