"""Values as people say them, and whether a text says one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_WORD = re.compile(r"[^\W_]+")
Scalar = str | int | float | bool
Value = Scalar | Sequence[Any] | Mapping[str, Any]


def is_said(value: Value, text: str) -> bool:
    """Whether the words of a value stand next to each other in a text.

    Of a list those of each item, of an object those of each value.
    """
    if not isinstance(value, Scalar):
        items = list(value.values() if isinstance(value, Mapping) else value)
        return bool(items) and all(is_said(each, text) for each in items)
    wanted = words_of(spoken(value))
    return bool(wanted) and f" {' '.join(wanted)} " in f" {' '.join(words_of(text))} "


def spoken(value: Value) -> str:
    """Return a value as a user says it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Scalar):
        return str(value)
    named = value.items() if isinstance(value, Mapping) else (("", each) for each in value)
    *first, last = [f"{name} {spoken(each)}".strip() for name, each in named] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def words_of(text: str) -> list[str]:
    """Return the words of a text or of a parameter's name, in lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)  # camelCase
    return [word.casefold() for word in _WORD.findall(spaced)]
