"""Spans of calls inside a longer text: the first JSON object or Python list of calls."""

from __future__ import annotations

import re


def json_span(text: str) -> str:
    """Return the first object, or list that opens with one, out of a text.

    To its end where it is not closed.
    """
    opening = re.search(r"\[\s*\{|\{", text)
    return text[opening.start() : closing_index(text, opening.start(), '"')] if opening else text


def python_span(text: str) -> str:
    """Return the first list of calls in a text, or its lines of calls alone, as a list."""
    opening = re.search(r"\[\s*(?<![\w.])[A-Za-z_][\w.]*\(", text)
    if opening:
        return text[opening.start() : closing_index(text, opening.start(), "'\"")]
    lines = [line.strip().rstrip(",;") for line in text.splitlines()]
    calls = [line for line in lines if re.fullmatch(r"[A-Za-z_][\w.]*\(.*\)", line)]
    return f"[{', '.join(calls)}]" if calls else text


def closing_index(text: str, start: int, quotes: str) -> int:
    """Return the index behind the bracket that closes the one at `start`.

    The text's end where there is none.
    """
    depth, quote, index = 0, "", start
    while index < len(text):
        character = text[index]
        if quote:
            index += character == "\\"
            quote = "" if character == quote else quote
        elif character in quotes:
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
            if depth == 0:
                return index + 1
        index += 1
    return len(text)
