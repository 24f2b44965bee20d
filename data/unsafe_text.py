"""Text that is not safe to pass on: lone surrogates, marks that a template would read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

REPLACEMENT = "\ufffd"

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def join_surrogates(text: str) -> str:
    """Join the surrogates of a text: each pair to the character that it encodes."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _PAIR.sub(_character, text)


def encodable_text(text: str) -> str:
    """Return an encodable text, for every encoder: surrogates joined, or replaced by U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub(REPLACEMENT, join_surrogates(text))


def encodable_value(value: Any) -> Any:
    """Return an encodable JSON value, a copy: its texts, keys included."""
    if isinstance(value, str):
        return encodable_text(value)
    if isinstance(value, Mapping):
        return {encodable_value(key): encodable_value(each) for key, each in value.items()}
    return [encodable_value(each) for each in value] if isinstance(value, list | tuple) else value


def json_text(
    value: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None
) -> str:
    """Return the JSON text of a value, characters beyond ASCII unescaped, surrogates escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=default)
    return text if text.isascii() else _SURROGATE.sub(lambda each: f"\\u{ord(each[0]):04x}", text)


def _character(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


WORD_JOINER = "\u2060"
"""No tag and no special token contains it, and no line breaks at it: the text reads the same."""


def break_marker(mark: str) -> str:
    """Break a marker, of two characters or more, so that nothing takes it for one."""
    return mark[0] + WORD_JOINER + mark[1:]
