"""Values that stand in scenarios: numbers of things that exist, closed lists, names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind
from fctncalling.lab.own_api.kinds.pattern_text import shape_pattern

MOST_KNOWN = 200
_WITH_KNOWN = {"identifier", "person_name", "place", "free_text"}


def with_scenario_values(
    kinds: Mapping[tuple[str, str], ArgumentKind], scenarios: Sequence[Mapping[str, Any]]
) -> dict[tuple[str, str], ArgumentKind]:
    """Return kinds with the values of scenarios that a parameter can take.

    Of an identifier those of its shape, wherever they stand; of names and texts those of a field
    of the parameter's own name.
    """
    fields: dict[str, list[str]] = {}
    texts: list[str] = []
    for each in scenarios:
        for name, text in _texts(each, ""):
            texts.append(text)
            fields.setdefault(name, []).append(text)
    unique = list(dict.fromkeys(texts))
    return {key: _with_known(key[1], kind, fields, unique) for key, kind in kinds.items()}


def _with_known(
    name: str, kind: ArgumentKind, fields: Mapping[str, Sequence[str]], texts: Sequence[str]
) -> ArgumentKind:
    if kind.kind not in _WITH_KNOWN or not texts:
        return kind
    if kind.kind == "identifier":
        pattern = kind.pattern or (shape_pattern(str(kind.examples[0])) if kind.examples else None)
        # Numbers of other lengths are numbers of the same thing.
        loose = pattern and re.sub(r"(\\d)+", r"\\d+", pattern)
        found = [each for each in texts if loose and re.fullmatch(loose, each)]
    else:
        found = list(dict.fromkeys(fields.get(name, ())))
    return replace(kind, known=tuple(found[:MOST_KNOWN])) if found else kind


def _texts(value: Any, field: str) -> Iterator[tuple[str, str]]:
    """Yield (field, text) of all texts, keys of a mapping as fields of its name's singular."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if field and isinstance(each, Mapping):
                yield field, str(key)
            yield from _texts(each, str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, field)
