"""Values as people say them, and whether a text says one."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")
Value = str | int | float | bool


def is_said(value: Value, text: str) -> bool:
    """Whether the words of a value stand next to each other in a text."""
    wanted = words_of(spoken(value))
    return bool(wanted) and f" {' '.join(wanted)} " in f" {' '.join(words_of(text))} "


def spoken(value: Value) -> str:
    """Return a value as a user says it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def words_of(text: str) -> list[str]:
    """Return the words of a text or of a parameter's name, in lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)  # camelCase
    return [word.casefold() for word in _WORD.findall(spaced)]
