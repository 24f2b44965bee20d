"""Fast path for simple Python calls, equivalent to the full parser.

Building a syntax tree takes most of the time of a verdict, and nearly all calls need none: one
pattern says whether a text is plain, another finds its parts. Whatever is not plain (escapes,
nested calls, arithmetic, keywords, anything unusual or wrong) is left to the full parser.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.envs.python_source.parse import is_small_source

# Nothing is tried twice: what a part has taken it keeps (`*+`), and its first character tells it
# from the others.
_BLANK = r"[ \t\n]*+"
_NAME = r"(?!__)[A-Za-z_][A-Za-z0-9_]*+"
_DOTTED = rf"{_NAME}(?:\.{_NAME}){{0,20}}+"
_TEXT = r"""(?:'[^'\\\n\r\0\ud800-\udfff]*+'|"[^"\\\n\r\0\ud800-\udfff]*+")"""
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17}+)(?:\.[0-9]{1,17}+)?+(?:e[-+]?[0-9]{1,3}+)?+"
_SCALAR = rf"(?:{_TEXT}|{_NUMBER}|True|False|None)"
_LIST = rf"\[{_BLANK}(?:{_SCALAR}{_BLANK}(?:,{_BLANK}{_SCALAR}{_BLANK})*+)?+\]"
_PAIR = rf"{_TEXT}{_BLANK}:{_BLANK}(?:{_SCALAR}|{_LIST}){_BLANK}"
_VALUE = rf"(?:{_SCALAR}|{_LIST}|\{{{_BLANK}(?:{_PAIR}(?:,{_BLANK}{_PAIR})*+)?+\}})"
_NAMED = rf"{_NAME}{_BLANK}={_BLANK}{_VALUE}{_BLANK}"
_CALL = rf"{_DOTTED}\({_BLANK}(?:{_NAMED}(?:,{_BLANK}{_NAMED})*+)?+\){_BLANK}"
_GIVEN = rf"(?:{_NAME}{_BLANK}={_BLANK})?+{_VALUE}{_BLANK}"

_CALLS = re.compile(rf"\[{_BLANK}{_CALL}(?:,{_BLANK}{_CALL})*+\]")
_ONE_CALL = re.compile(rf"({_NAME})\({_BLANK}(?:{_GIVEN}(?:,{_BLANK}{_GIVEN})*+)?+\)")
# What stands in a text found to be plain.
_CALLEES_AND_ARGUMENTS = re.compile(rf"({_DOTTED})(?:\(|{_BLANK}={_BLANK}({_VALUE}))")
_ARGUMENTS = re.compile(rf"(?:({_NAME}){_BLANK}={_BLANK})?+({_VALUE})")
_ITEMS = re.compile(_SCALAR)
_PAIRS = re.compile(rf"({_TEXT}){_BLANK}:{_BLANK}({_SCALAR}|{_LIST})")
_WORDS = {"True": True, "False": False, "None": None}
_RESERVED = frozenset(keyword.kwlist)
_PLAIN_CHARS = 20_000  # each of them may become ten in a call string


def parse_plain_calls(text: str) -> list[dict[str, dict[Any, Any]]] | None:
    """Parse plain calls, a list of literals alone, to [{name: {parameter: value}}]; else None.

    None for anything else, and for what is too large.
    """
    if not is_small_source(text) or _CALLS.fullmatch(text) is None:
        return None
    calls: list[dict[str, dict[Any, Any]]] = []
    arguments: dict[Any, Any] = {}
    for name, source in _CALLEES_AND_ARGUMENTS.findall(text):
        if name in _RESERVED:
            return None
        if source:
            arguments[name] = source[1:-1] if source[0] in "'\"" else _value(source)
        elif "." in name and not _RESERVED.isdisjoint(name.split(".")):
            return None
        else:
            arguments = {}
            calls.append({name: arguments})
    return calls


class PlainCall(NamedTuple):
    """Plain call, whose arguments are literals; whoever executes it owns their values."""

    name: str
    positional: Sequence[Any]
    keywords: Mapping[str, Any]


def plain_calls_or_none(
    text: str, calls: Sequence[Mapping[str, Mapping[Any, Any]]]
) -> list[PlainCall] | None:
    """Return a text's executable plain calls; None where they would be read otherwise.

    A bracket inside a string is nothing plain: before one the executor takes names for functions.
    Nor is a dict, which may be taken for a call; nor what is long, for its call strings may be too
    long to execute.
    """
    if len(text) > _PLAIN_CHARS or "{" in text or text.count("(") != len(calls):
        return None
    return [PlainCall(name, (), keywords) for call in calls for name, keywords in call.items()]


def parse_plain_call(text: str) -> PlainCall | None:
    """Parse a plain call, the string `f(1, a='x')`, for execution; None for anything else.

    A bracket inside a string is nothing plain, as in `plain_calls_or_none`.
    """
    found = _ONE_CALL.fullmatch(text) if text.count("(") == 1 else None
    if found is None:
        return None
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for name, source in _ARGUMENTS.findall(text, found.end(1)):
        value = source[1:-1] if source[0] in "'\"" else _value(source)
        if name:
            if name in _RESERVED or name in keywords:
                return None
            keywords[name] = value
        elif keywords:
            return None
        else:
            positional.append(value)
    return PlainCall(found[1], positional, keywords)


def _value(source: str) -> Any:
    if source[0] == "[":
        return [_scalar(item) for item in _ITEMS.findall(source)]
    if source[0] == "{":
        return {key[1:-1]: _value(value) for key, value in _PAIRS.findall(source)}
    return _scalar(source)


def _scalar(source: str) -> Any:
    if source[0] in "'\"":
        return source[1:-1]
    if source in _WORDS:
        return _WORDS[source]
    return float(source) if "." in source or "e" in source else int(source)
