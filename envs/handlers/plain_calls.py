"""A quick reader for the plainest calls, `[f(a=1, b='x', c=[1, 2])]`: what it reads, the full parser reads alike.

Building a syntax tree takes most of the time of a single-turn verdict, and nearly all answers need none. Whatever is
not plain (escapes, nested calls, arithmetic, keywords, anything unusual or wrong) is left to the full parser.
"""

from __future__ import annotations

import keyword
import re
from typing import Any

_SCALAR = (
    r"""(?:'([^'\\\n\r\0\ud800-\udfff]*)'|"([^"\\\n\r\0\ud800-\udfff]*)\""""
    r"|(-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,17})|(-?(?:0|[1-9][0-9]{0,17}))|(True|False|None))"
)
_BLANK = r"[ \t\n]*"
_NAME = r"(?!__)[A-Za-z_][A-Za-z0-9_]*"
_CALL = re.compile(rf"{_BLANK}({_NAME}(?:\.{_NAME}){{0,20}})\({_BLANK}")
_ARGUMENT = re.compile(rf"({_NAME}){_BLANK}={_BLANK}(?:{_SCALAR}|(\[)){_BLANK}")
_ITEM = re.compile(rf"{_BLANK}{_SCALAR}{_BLANK}([,\]])")
_NEXT = re.compile(rf"{_BLANK}([,)\]]){_BLANK}")
_WORDS = {"True": True, "False": False, "None": None}
_RESERVED = frozenset(keyword.kwlist)


def plain_calls(text: str) -> list[dict[str, dict[Any, Any]]] | None:
    """Return [{name: {parameter: value}}] of a list of plain calls; None where the text is anything else."""
    if not text.startswith("[") or not text.endswith("]"):
        return None
    calls: list[dict[str, dict[Any, Any]]] = []
    at = 1
    while (head := _CALL.match(text, at)) is not None:
        name = head[1]
        if name in _RESERVED or ("." in name and not _RESERVED.isdisjoint(name.split("."))):
            return None
        arguments: dict[Any, Any] = {}
        at = _read_arguments(text, head.end(), arguments)
        after = _NEXT.match(text, at) if at > 0 else None
        if after is None or after[1] == ")":
            return None
        calls.append({name: arguments})
        if after[1] == "]":
            return calls if after.end() == len(text) else None
        at = after.end()
    return None


def _read_arguments(text: str, at: int, arguments: dict[Any, Any]) -> int:
    """Fill in arguments up to the bracket that closes them; return the index behind it, -1 where they are not plain."""
    if text[at : at + 1] == ")":
        return at + 1
    while (found := _ARGUMENT.match(text, at)) is not None and found[1] not in _RESERVED:
        at = found.end()
        if found[7]:
            items: list[Any] = []
            at = _read_items(text, at, items)
            value: Any = items
        else:
            value = _scalar(found, 2)
        after = _NEXT.match(text, at) if at > 0 else None
        if after is None or after[1] == "]":
            return -1
        arguments[found[1]] = value
        if after[1] == ")":
            return after.start(1) + 1
        at = after.end()
    return -1


def _read_items(text: str, at: int, items: list[Any]) -> int:
    if text[at : at + 1] == "]":
        return at + 1
    while (found := _ITEM.match(text, at)) is not None:
        items.append(_scalar(found, 1))
        at = found.end()
        if found[6] == "]":
            return at
    return -1


def _scalar(found: re.Match[str], first: int) -> Any:
    single, double, real, whole, word = found.group(first, first + 1, first + 2, first + 3, first + 4)
    if single is not None:
        return single
    if double is not None:
        return double
    if whole is not None:
        return int(whole)
    return float(real) if real is not None else _WORDS[word]
