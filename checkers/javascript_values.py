"""Conversion of JavaScript source text to Python values, as BFCL does it: by patterns.

Text that is not of the documented type stays text, so that the type check refuses it. BFCL's
patterns backtrack, some of them exponentially; they are walked here in a few passes over the text,
to the same result.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from fctncalling.checkers.source_values import SourceLanguage, parse_number_or_text

JAVASCRIPT_TYPES: dict[str, type] = {
    "String": str,
    "any": str,
    "integer": int,
    "Bigint": int,
    "float": float,
    "Boolean": bool,
    "array": list,
    "dict": dict,
}
"""Documented type -> the class of its values."""

_INTEGER = re.compile(r"-?\d+$")
_BIGINT = re.compile(r"-?\d+n$")
_FLOAT = re.compile(r"-?\d+(?:\.\d+)?$")
_BLANK = re.compile(r"\s*")
_ARRAY = re.compile(r"(?:(\[)|new\s+Array\()")
_ARRAY_OF_ARRAYS = re.compile(r"(?:(\[)|new\s+Array\()\s*\[")
_NEXT_ARRAY = re.compile(r",\s*\[")
_CLOSING = re.compile(r"\]")
_BEFORE_KEY = re.compile(r",(?=[^,]+:)")
_EMPTY_KEY = re.compile(r":[^,:]*(?:,|\Z)")
_BRACKETED = re.compile(r"\[(.*?)\]")


def parse_javascript_value(text: str, name: str, item: str | None = None) -> Any:
    """Parse source text of a documented JavaScript type; return the text if it does not fit.

    item: the documented type of a container's items.
    """
    try:
        return _value(text, name, item)
    except ValueError:  # more digits than the interpreter converts; BFCL stops there
        return text


def _value(text: str, name: str, item: str | None = None) -> Any:
    match name:
        case "String":
            return text[1:-1] if is_quoted(text) else text
        case "integer":
            return int(text) if _INTEGER.match(text) else text
        case "Bigint":
            return int(text.rstrip("\n")[:-1]) if _BIGINT.match(text) else text
        case "float":
            return float(text) if _FLOAT.match(text) else text
        case "Boolean":
            return {"true": True, "false": False}.get(text, text)
        case "array":
            return _array(text.strip(), item)
        case "dict":
            return _dict(text.strip())
    return text


def is_quoted(text: str) -> bool:
    """Whether a text begins and ends with the same quote; a lone quote counts."""
    return text[:1] in ("'", '"') and text.endswith(text[:1])


def guess_value(text: str) -> Any:
    """Guess the value of JavaScript source text without a documented type.

    Numbers are read as Python does (`1_0`, `nan`).
    """
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    return text[1:-1] if is_quoted(text) else parse_number_or_text(text)


def _array(text: str, item: str | None) -> Any:
    nested = _arrays_inside(text)
    if nested is not None:
        return nested
    inside = _inside(text)
    if inside is None:
        return text
    parts = [part.strip() for part in inside.split(",")] if inside.strip() else []
    return [guess_value(part) if item is None else _value(part, item) for part in parts]


def _inside(text: str) -> str | None:
    """Return the text between an array's brackets, up to the first closing one on the line."""
    opening = _ARRAY.match(text)
    if not opening:
        return None
    end = text.find("]" if opening[1] else ")", opening.end())
    return (
        None if end < 0 or text.find("\n", opening.end(), end) >= 0 else text[opening.end() : end]
    )


def _arrays_inside(text: str) -> list[list[Any]] | None:
    """Parse an array of arrays; None if an item is no array.

    Commas part the items of an inner array whatever they are.
    """
    opening = _ARRAY_OF_ARRAYS.match(text)
    end = (
        None if opening is None else _end_of_arrays(text, opening.end(), "]" if opening[1] else ")")
    )
    if end is None:
        return None
    arrays = []
    for index, inner in enumerate(_BRACKETED.findall(text[:end])):
        # The first pair of brackets found is the outer opening one with the first inner closing
        # one.
        stripped = inner.strip()
        items = stripped[1:] if index == 0 and stripped.startswith("[") else stripped
        arrays.append([guess_value(item) for item in items.split(",")])
    return arrays


def _end_of_arrays(text: str, start: int, closing: str) -> int | None:
    """Find the end of an array of arrays, given the start of its first inner array; or None.

    An inner array ends at the first closing bracket of its line after which the rest of the text
    fits. So the brackets are walked from the last to the first: the answer for the rest is then at
    hand, where BFCL's pattern tries every combination.
    """
    closings = [match.start() for match in _CLOSING.finditer(text, start)]
    # End of the outer array if an inner one ends at this bracket; None if the rest does not fit.
    ends: list[int | None] = [None] * (len(closings) + 1)
    # The nearest bracket, this one or later, after which the rest fits.
    nearest = [len(closings)] * (len(closings) + 1)

    def end_from(position: int) -> int | None:
        index = nearest[bisect_left(closings, position)]
        fits = ends[index] is not None and text.find("\n", position, closings[index]) < 0
        return ends[index] if fits else None

    for index in reversed(range(len(closings))):
        rest = _after_blank(text, closings[index] + 1)
        following = _NEXT_ARRAY.match(text, rest)
        if following:
            ends[index] = end_from(following.end())
        elif text.startswith(closing, rest):
            ends[index] = rest + 1
        nearest[index] = nearest[index + 1] if ends[index] is None else index
    return end_from(start)


def _after_blank(text: str, start: int) -> int:
    blanks = _BLANK.match(text, start)
    return blanks.end() if blanks else start


def _dict(text: str) -> Any:
    """Parse an object, up to the first closing brace on the line of the opening one."""
    end = text.find("}")
    if not text.startswith("{") or end < 0 or "\n" in text[:end]:
        return text
    return {key.strip().strip("'\""): _entry(value.strip()) for key, value in _pairs(text[1:end])}


def _entry(text: str) -> Any:
    """Quotes are taken off before the value is guessed, so that '5' is a number."""
    if text.startswith("[") and text.endswith("]"):
        return _array(text, None)
    if text.startswith("{") and text.endswith("}"):
        return _dict(text)
    return guess_value(text.strip("'\""))


def _pairs(content: str) -> Iterator[tuple[str, str]]:
    """Yield the (key, value) texts of an object.

    A key reaches to the next colon, a value to the next comma before another key.
    """
    position = 0
    while position < len(content):
        if content[position] == ":":  # no key
            position += 1
            continue
        colon = content.find(":", position)
        if colon < 0:
            return
        value = _after_blank(content, colon + 1)
        comma = _BEFORE_KEY.search(content, value)
        yield content[position:colon], content[value : comma.start() if comma else len(content)]
        position = _after_blank(content, comma.end()) if comma else len(content)
        if comma and _EMPTY_KEY.match(content, position):
            position -= 1  # a blank is the key


JAVASCRIPT_ARGUMENTS = SourceLanguage(
    "JavaScript", "type_error:js", JAVASCRIPT_TYPES, ("array",), parse_javascript_value
)
