"""Conversion of Java source text to Python values, as BFCL does it: by patterns.

Text that is not of the documented type stays text, so that the type check refuses it. BFCL's
patterns are searched here by hand where backtracking would cost more than a few passes over the
text; what they find is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fctncalling.checkers.source_values import SourceLanguage, parse_number_or_text

JAVA_TYPES: dict[str, type] = {
    "byte": int,
    "short": int,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": bool,
    "char": str,
    "String": str,
    "any": str,
    "Array": list,
    "ArrayList": list,
    "HashMap": dict,
}
"""Documented type -> the class of its values. BFCL names Set, Hashtable, Queue and Stack as well,
and reads none.
"""

_INTEGER = re.compile(r"-?\d+$")
_LONG = re.compile(r"-?\d+[lL]$")
_DOUBLE = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$")
_FLOAT = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[fF]$")

_LIST_OF = re.compile(r"new\s+ArrayList<\w*>\(Arrays\.asList\(")
_LIST_BODY = re.compile(r"new\s+ArrayList<\w*>\(\)\s*\{\{\s*")
_EMPTY_LIST = re.compile(r"new\s+ArrayList<\w*>\(\)")
_ARRAY = re.compile(r"new\s+\w+\[\]\s*\{")
_MAP = re.compile(r"new\s+HashMap<")
_MAP_MADE = re.compile(r">\s*\(\)")
_MAP_BODY = re.compile(r">\s*\(\)\s*\{\s*\{?\s*")
_BLANK = re.compile(r"\s*")


def parse_java_value(text: str, name: str, item: str | None = None) -> Any:
    """Parse source text of a documented Java type; return the text itself if it does not fit.

    item: the documented type of a container's items.
    """
    match name:
        case "byte" | "short" | "integer":
            return _integer(text, text) if _INTEGER.match(text) else text
        case "long":
            return _integer(text.rstrip("\n")[:-1], text) if _LONG.match(text) else text
        case "float":
            return float(text.rstrip("\n")[:-1]) if _FLOAT.match(text) else text
        case "double":
            return float(text) if _DOUBLE.match(text) else text
        case "boolean":
            return {"true": True, "false": False}.get(text, text)
        case "Array":
            return _array(text, item)
        case "ArrayList":
            return _array_list(text, item)
        case "HashMap":
            return _hash_map(text)
    return text


def _integer(digits: str, text: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # more digits than the interpreter converts; BFCL stops there
        return text


def _array(text: str, item: str | None) -> Any:
    """Items keep their quotes, so that quoted strings never equal a ground truth's."""
    inside = _inside(text, _ARRAY, "}")
    if inside is None:
        return text
    return [_item(part.strip(), item) for part in inside.split(",") if part.strip()]


def _array_list(text: str, item: str | None) -> Any:
    inside = _inside(text, _LIST_OF, "))", least=1)
    if inside is not None:
        return [_listed(part.strip(), item) for part in inside.split(",")]
    body = _list_body(text)
    if body is not None:
        return [_listed(text.strip(), item) for text in _added(body)]
    return [] if _EMPTY_LIST.search(text) else text


def _item(text: str, item: str | None) -> Any:
    return guess_value(text) if item is None else parse_java_value(text, item)


def _listed(text: str, item: str | None) -> Any:
    return text[1:-1] if item in ("char", "String") else _item(text, item)


def _inside(text: str, opening: re.Pattern[str], closing: str, least: int = 0) -> str | None:
    """Return the text between an opening and the next closing on the same line.

    It has `least` characters or more.
    """
    newline = -1
    for match in opening.finditer(text):
        if match.end() <= newline:
            continue  # its closing is the last one's, on another line
        end = text.find(closing, match.end() + least)
        if end < 0:
            return None
        newline = text.find("\n", match.end(), end)
        if newline < 0:
            return text[match.end() : end]
    return None


def _list_body(text: str) -> str | None:
    match = _LIST_BODY.search(text)
    if not match:
        return None
    end = text.find("}}", match.end() + 1)
    if end >= 0:
        return text[match.end() : end]
    # A blank body: nothing is added. Without a blank BFCL's pattern, which wants a character, does
    # not fit.
    return "" if text.startswith("}}", match.end()) and text[match.end() - 1].isspace() else None


def _added(body: str) -> Iterator[str]:
    start = body.find("add(")
    while start >= 0:
        end = body.find(")", start + 5)
        if end < 0:
            return
        newline = body.find("\n", start + 4, end)
        if newline < 0:
            yield body[start + 4 : end]
        start = body.find("add(", end + 1 if newline < 0 else newline)


def _hash_map(text: str) -> Any:
    made = _MAP.search(text)
    body = _MAP_BODY.search(text, made.end()) if made else None
    end = text.find("}", body.end()) if body else -1
    if body is None or end < 0:
        return {} if _is_made(text) else text
    return {key: guess_value(value.strip()) for key, value in _puts(text[body.end() : end])}


def _is_made(text: str) -> bool:
    """Whether the text creates a map: `new HashMap<`, and on the same line the `>` of `>()`."""
    newline, created = -1, None
    for match in _MAP.finditer(text):
        if match.end() <= newline:
            continue
        if created is None or created.start() < match.end():
            created = _MAP_MADE.search(text, match.end())
        if created is None:
            return False
        newline = text.find("\n", match.end(), created.start())
        if newline < 0:
            return True
    return False


def _puts(body: str) -> Iterator[tuple[str, str]]:
    """Yield the (key, value) texts of each `put("key", value)`.

    A key ends at the first `",` that a `)` follows on the value's line.
    """
    start, line_end = body.find('put("'), -1
    while start >= 0:
        key = start + 5
        if line_end < key:
            line_end = _line_end(body, key)
        entry = _put_at(body, key, body.find('",', key, line_end))
        if entry is None:
            # No `)` follows on this line, so only its last `",` may have a value: on a line below.
            entry = _put_at(body, key, body.rfind('",', key, line_end))
        if entry:
            yield entry[0], entry[1]
        start = body.find('put("', entry[2] if entry else line_end)


def _put_at(body: str, key: int, comma: int) -> tuple[str, str, int] | None:
    """Return key, value and end of a call, given the `comma` that ends its key.

    None where no `)` follows.
    """
    if comma < 0:
        return None
    blank = _BLANK.match(body, comma + 2)
    value = blank.end() if blank else comma + 2
    end = body.find(")", value)
    if end < 0 or body.find("\n", value, end) >= 0:
        return None
    return body[key:comma], body[value:end], end + 1


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def guess_value(text: str) -> Any:
    """Guess the value of Java source text without a documented type.

    Numbers are read as Python does (`1_0`, `nan`).
    """
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"') and text.endswith('"'):
        return text[1:-1]
    if _LONG.match(text):
        return _integer(text.rstrip("\n")[:-1], text)
    if _FLOAT.match(text):
        return float(text.rstrip("\n")[:-1])
    return parse_number_or_text(text)


JAVA_ARGUMENTS = SourceLanguage(
    "Java", "type_error:java", JAVA_TYPES, ("Array", "ArrayList"), parse_java_value
)
