"""Text made safe to pass on: no lone surrogates, no template marks, bounded length."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

REPLACEMENT = "\ufffd"

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def join_surrogates(text: str) -> str:
    """Join surrogate pairs of a text to the characters that they encode."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)


def encodable_text(text: str) -> str:
    """Return a text that every encoder accepts: surrogates joined, or replaced by U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub(REPLACEMENT, join_surrogates(text))


def encodable_value(value: Any) -> Any:
    """Copy a JSON value with all its texts, keys included, made encodable."""
    if isinstance(value, str):
        return encodable_text(value)
    if isinstance(value, Mapping):
        return {encodable_value(key): encodable_value(item) for key, item in value.items()}
    return [encodable_value(item) for item in value] if isinstance(value, list | tuple) else value


def json_text(
    value: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None
) -> str:
    """Return the JSON text of a value, characters beyond ASCII unescaped, surrogates escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=default)
    return text if text.isascii() else _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


WORD_JOINER = "\u2060"
"""No tag and no special token contains it, and no line breaks at it: the text reads the same."""


TAGS = tuple(
    "<tool_call> </tool_call> <tool_response> </tool_response> <think> </think> [TOOL_CALLS] "
    "<|python_tag|> <|python_start|> <|python_end|> <functions> </functions> <TOOLCALL> "
    "</TOOLCALL> <request> <call> <response> <submit> <PYTHON> </PYTHON> <PYTHON-OUTPUT> "
    "</PYTHON-OUTPUT>".split()
)
"""What handlers and policies read as the beginning or the end of something: never so when a tool
has written it.
"""


def break_marker(mark: str) -> str:
    """Break a marker of two or more characters, so that no reader recognises it."""
    return mark[0] + WORD_JOINER + mark[1:]


def neutralise_marks(text: str, marks: Iterable[str]) -> str:
    """Neutralise marks (an environment's tag, a template's special token) in a tool's text.

    An invisible character is put behind the first character of each, until none is left. Cut
    afterwards, never before.
    """
    marks = [mark for mark in marks if mark]
    if any(len(mark) < 2 for mark in marks):
        raise ValueError("a mark of one character cannot be neutralised")
    for mark in marks:
        while mark in text:  # again where marks overlap
            text = text.replace(mark, break_marker(mark))
    return text


def cut_text(text: str, max_bytes: int) -> tuple[str, int]:
    """Cut a text to at most `max_bytes` bytes of UTF-8; return it and the number of bytes cut."""
    if len(text) * 4 <= max_bytes:
        return text, 0
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= max_bytes:
        return text, 0
    end = max_bytes
    # never split a character: step back over continuation bytes
    while end > 0 and encoded[end] & 0xC0 == 0x80:
        end -= 1
    return encoded[:end].decode("utf-8", "surrogatepass"), len(encoded) - end


def truncate_text(
    text: str, max_characters: int, *, keep_end: bool = False, certain: bool = False
) -> str:
    """Cut a text to max_characters and mark the cut.

    `certain` marks it although what is left would fit.
    """
    if len(text) <= max_characters and not certain:
        return text
    marker = f"(output truncated to {max_characters} characters)"
    marker = f"{marker} ...\n" if keep_end else f"\n... {marker}"
    room = max_characters - len(marker)
    if room <= 0:
        return text[-max_characters:] if keep_end and max_characters else text[:max_characters]
    return marker + text[-room:] if keep_end else text[:room] + marker


def truncate_together(texts: Sequence[str], max_characters: int) -> list[str]:
    """Cut texts to a joint budget of characters, each to an equal share of it."""
    if sum(map(len, texts)) <= max_characters:
        return list(texts)
    return [truncate_text(text, max_characters // len(texts)) for text in texts]
