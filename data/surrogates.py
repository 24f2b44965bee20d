"""Surrogate code points: what models write as `\\ud83d\\ude00`, and no UTF-8 can hold.

A text keeps them while it is read, executed and judged, for BFCL's results depend on them. At each
border they go: what a model, a tokenizer or an endpoint is shown has pairs joined and lone halves
replaced; JSON files escape them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

REPLACEMENT = "\ufffd"

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def joined(text: str) -> str:
    """Return a text with each surrogate pair joined to the character that it encodes."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _PAIR.sub(_character, text)


def encodable(text: str) -> str:
    """Return a text that every encoder takes: pairs joined, lone surrogates replaced by U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub(REPLACEMENT, joined(text))


def encodable_value(value: Any) -> Any:
    """Return a copy of JSON-like data with `encodable` texts, keys included."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        return {encodable_value(key): encodable_value(each) for key, each in value.items()}
    return [encodable_value(each) for each in value] if isinstance(value, list | tuple) else value


def json_text(
    value: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None
) -> str:
    """Return JSON with characters beyond ASCII unescaped and surrogates escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=default)
    return text if text.isascii() else _SURROGATE.sub(lambda each: f"\\u{ord(each[0]):04x}", text)


def _character(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")
