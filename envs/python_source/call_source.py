"""Calls and values as Python source: parsed, written, weighed.

The parser is size-limited and thread-safe, and executes no code.

Building a syntax tree takes most of the time of a verdict, and nearly all calls need none: one
pattern says whether a text is plain, another finds its parts. Whatever is not plain (escapes,
nested calls, arithmetic, keywords, anything unusual or wrong) is left to the tree.
"""

from __future__ import annotations

import ast
import keyword
import math
import os
import re
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

Tree = TypeVar("Tree", bound=ast.mod)

MAX_TOKENS = 3_000
"""The most words, strings and marks of a source that is parsed: four times any official one's, some
15 milliseconds.
"""
MAX_FORMAT_BRACES = 500
"""The most opening braces of a source with f-strings: CPython 3.11 starts its parser anew at each
of them.
"""

# Every string matches, closed or not, so that no character is looked at twice.
_TOKEN = re.compile(
    r'"""(?>(?:[^"\\]|\\.|"(?!""))*)(?:""")?|\'\'\'(?>(?:[^\'\\]|\\.|\'(?!\'\'))*)(?:\'\'\')?'
    r'|"(?>(?:[^"\\\n]|\\.)*)"?|\'(?>(?:[^\'\\\n]|\\.)*)\'?|#[^\n]*+|\w++|[^\w\s]',
    re.DOTALL,
)
_FORMAT = re.compile(r"(?i)\b(?:f|fr|rf)[\"']")

# An unknown escape, a number that a keyword follows at once.
_WARNED = re.compile(r"(?i)\\|\d\.?[a-z]")

# Reading a tree counts its depth in a place all threads share (CPython 3.11 raises SystemError
# where two meet there), and warning filters are the process's own: hence one thread at a time.
_PARSING = threading.Lock()
_TRIES = 100  # against threads of other libraries, which parse without the lock
# a child must not inherit the lock from a thread that it has not
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_PARSING.acquire, after_in_parent=_PARSING.release, after_in_child=_PARSING.release
    )


class SourceTooLarge(ValueError):
    """Error of a source that exceeds the parser's limits."""


def is_small_source(*sources: str) -> bool:
    """Whether all sources of a text are small enough to be parsed, by their tokens."""
    return (
        sum(map(len, sources)) <= MAX_TOKENS
        or sum(len(_TOKEN.findall(source)) for source in sources) <= MAX_TOKENS
    )


def require_small_source(*sources: str) -> None:
    """Raise SourceTooLarge unless the sources of a text can be parsed."""
    if not is_small_source(*sources):
        raise SourceTooLarge(
            f"the source has more than {MAX_TOKENS} words and marks, which are not read"
        )
    for source in sources:
        if source.count("{") > MAX_FORMAT_BRACES and _FORMAT.search(source):
            raise SourceTooLarge(f"a source with f-strings has at most {MAX_FORMAT_BRACES} braces")


def parse_expression(
    source: str, filename: str = "<unknown>", *, compiled: bool = False
) -> ast.expr:
    r"""Parse a Python expression to its tree.

    Raises SyntaxError, ValueError, RecursionError or MemoryError, as `ast.parse`.

    Raises SourceTooLarge, a ValueError, for more of it than is parsed: nothing is, then. `compiled`
    also raises what the interpreter finds only behind its parser (a keyword argument given twice,
    `await` outside a function): the compiled code is thrown away, so nothing runs. What Python only
    warns of (an escape such as "\d", the number of `1if x else 2`) is never an error, whatever
    warnings are set to do.
    """
    require_small_source(source)
    with _PARSING:
        if not compiled and _WARNED.search(source) is None:
            return _untroubled(lambda: ast.parse(source, filename, mode="eval")).body
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if compiled:
                compile(source, filename, "eval", dont_inherit=True)
            return _untroubled(lambda: ast.parse(source, filename, mode="eval")).body


def _untroubled(parse: Callable[[], Tree]) -> Tree:
    """Call `parse`, again if another thread's parsing interfered."""
    for _ in range(_TRIES - 1):
        with suppress(SystemError):
            return parse()
    return parse()


MAX_CACHED_CHARS = 1000  # of a call string whose tree is kept


def parse_expression_cached(source: str) -> ast.expr:
    """Parse a Python expression, cached: the tree is shared and must not be changed.

    Raises Python's SyntaxError.
    """
    source = source.lstrip(" \t")
    return _tree(source) if len(source) <= MAX_CACHED_CHARS else _tree.__wrapped__(source)


@lru_cache(maxsize=2048)  # the calls of a task come again with every answer to it
def _tree(source: str) -> ast.expr:
    body = parse_expression(source, "<string>")
    if any(map(_is_unusual, ast.walk(body))):
        return parse_expression(source, "<string>", compiled=True)
    return body


def _is_unusual(node: ast.AST) -> bool:
    """Whether the interpreter may reject this node after parsing it."""
    if isinstance(node, ast.Call):
        names = [keyword.arg for keyword in node.keywords]
        return len(names) != len(set(names))
    return isinstance(
        node, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr | ast.Starred | ast.Lambda
    )


# Patterns of plain calls. Nothing is tried twice: what a part has taken it keeps (`*+`), and its
# first character tells it from the others. A group keeps it by `(?>...)`: after `(...)*+` Python
# 3.11.0 to 3.11.4 match what does not match (python/cpython#106052).
_BLANK = r"[ \t\n]*+"
_NAME = r"(?!__)[A-Za-z_][A-Za-z0-9_]*+"
_DOTTED = rf"{_NAME}(?>(?:\.{_NAME}){{0,20}})"
_TEXT = r"""(?:'[^'\\\n\r\0\ud800-\udfff]*+'|"[^"\\\n\r\0\ud800-\udfff]*+")"""
# Exponents of two digits: no infinity, which a call string writes as the name `inf`.
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17}+)(?>(?:\.[0-9]{1,17}+)?)(?>(?:e[-+]?[0-9]{1,2}+)?)"
_SCALAR = rf"(?:{_TEXT}|{_NUMBER}|True|False|None)"
_LIST = rf"\[{_BLANK}(?>(?:{_SCALAR}{_BLANK}(?>(?:,{_BLANK}{_SCALAR}{_BLANK})*))?)\]"
_PAIR = rf"{_TEXT}{_BLANK}:{_BLANK}(?:{_SCALAR}|{_LIST}){_BLANK}"
_VALUE = rf"(?:{_SCALAR}|{_LIST}|\{{{_BLANK}(?>(?:{_PAIR}(?>(?:,{_BLANK}{_PAIR})*))?)\}})"
_NAMED = rf"{_NAME}{_BLANK}={_BLANK}{_VALUE}{_BLANK}"
_CALL = rf"{_DOTTED}\({_BLANK}(?>(?:{_NAMED}(?>(?:,{_BLANK}{_NAMED})*))?)\){_BLANK}"
_GIVEN = rf"(?>(?:{_NAME}{_BLANK}={_BLANK})?){_VALUE}{_BLANK}"

_CALLS = re.compile(rf"\[{_BLANK}{_CALL}(?>(?:,{_BLANK}{_CALL})*)\]")
_ONE_CALL = re.compile(rf"({_NAME})\({_BLANK}(?>(?:{_GIVEN}(?>(?:,{_BLANK}{_GIVEN})*))?)\)")
# What stands in a text found to be plain.
_CALLEES_AND_ARGUMENTS = re.compile(rf"({_DOTTED})(?:\(|{_BLANK}={_BLANK}({_VALUE}))")
_ARGUMENTS = re.compile(rf"(?>(?:({_NAME}){_BLANK}={_BLANK})?)({_VALUE})")
_ITEMS = re.compile(_SCALAR)
_PAIRS = re.compile(rf"({_TEXT}){_BLANK}:{_BLANK}({_SCALAR}|{_LIST})")
_WORDS = {"True": True, "False": False, "None": None}
_RESERVED = frozenset(keyword.kwlist)
_PLAIN_CHARS = 20_000  # each of them may become ten in a call string


def parse_plain_calls(text: str) -> list[dict[str, dict[Any, Any]]] | None:
    """Parse a list of calls with literal arguments to a record; None for anything else.

    None for anything else, and for what is too large.
    """
    is_small = len(text) <= MAX_TOKENS or is_small_source(text)
    if not is_small or _CALLS.fullmatch(text) is None:
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
    """Call with literal arguments; its executor owns their values."""

    name: str
    positional: Sequence[Any]
    keywords: Mapping[str, Any]


def plain_calls_or_none(
    text: str, calls: Sequence[Mapping[str, Mapping[Any, Any]]]
) -> list[PlainCall] | None:
    """Return a text's plain calls for execution; None if BFCL would read it otherwise.

    A bracket inside a string is nothing plain: before one the executor takes names for functions.
    Nor is a dict, which may be taken for a call; nor what is long, for its call strings may be too
    long to execute.
    """
    if len(text) > _PLAIN_CHARS or "{" in text or text.count("(") != len(calls):
        return None
    return [PlainCall(name, (), keywords) for call in calls for name, keywords in call.items()]


def parse_plain_call(text: str) -> PlainCall | None:
    """Parse one call `f(1, a='x')` with literal arguments; None for anything else.

    A bracket inside a string is nothing plain, as in `plain_calls_or_none`.
    """
    match = _ONE_CALL.fullmatch(text) if text.count("(") == 1 else None
    if match is None:
        return None
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for name, source in _ARGUMENTS.findall(text, match.end(1)):
        value = source[1:-1] if source[0] in "'\"" else _value(source)
        if name:
            if name in _RESERVED or name in keywords:
                return None
            keywords[name] = value
        elif keywords:
            return None
        else:
            positional.append(value)
    return PlainCall(match[1], positional, keywords)


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


def render_call(name: str, arguments: Mapping[Any, Any]) -> str:
    """Render a call as the string that BFCL executes, `name(k=repr(v), ...)`.

    BFCL's one surprise: a dict whose values are all dicts is taken for a nested call, and the other
    dicts' keys are put between quotes as they are. An empty dict, on which BFCL fails, is written
    as one.
    """
    return f"{name}({', '.join(f'{key}={_argument(value)}' for key, value in arguments.items())})"


def _argument(value: Any) -> str:
    if not isinstance(value, dict) or not value:
        return repr(value)
    if all(isinstance(item, dict) for item in value.values()):
        name, arguments = next(iter(value.items()))
        return render_call(name, arguments)
    return "{" + ", ".join(f"'{key}': {_argument(item)}" for key, item in value.items()) + "}"


def python_literal(value: Any) -> str:
    """Return a value as a Python literal; ValueError if it has none."""
    match value:
        case None | bool() | int() | str() | bytes():
            return repr(value)
        case float() if math.isfinite(value):
            return repr(value)
        case float():
            return "1e999-1e999" if math.isnan(value) else "1e999" if value > 0 else "-1e999"
        case list():
            return f"[{', '.join(map(python_literal, value))}]"
        case tuple():
            return f"({', '.join(map(python_literal, value))}{',' if len(value) == 1 else ''})"
        case dict():
            return (
                "{"
                + ", ".join(
                    f"{python_literal(key)}: {python_literal(item)}" for key, item in value.items()
                )
                + "}"
            )
    raise ValueError(f"a {type(value).__name__} has no literal that decodes to it: {value!r}")


MAX_NESTED = 100
"""Containers inside each other, of one answer or value: several times what any function takes."""
MAX_WEIGHT = 50_000
"""Of all results of one evaluation together: items, characters / 10, integers' bits / 16."""
CHARS_PER_WEIGHT = 10
BITS_PER_WEIGHT = 16

_CONTAINERS = (list, tuple, dict, set, frozenset)
_WEIGHTLESS = frozenset({float, bool, type(None)})
_LONG = 32  # items, from which on those of one kind are counted at once


class LimitExceeded(ValueError):
    """Error of a value too large to compute, pass on or display."""


def value_size(value: Any, most: int = MAX_WEIGHT) -> int:
    """Return the size of a value, in the unit of MAX_WEIGHT.

    `most` + 1 for more, and for too deep nesting.

    What holds itself counts once there, as it is written `[...]`.

    Nested calls hand live objects from tool to tool, so that a state of a few kilobytes may unfold
    to more than a memory holds, and may hold itself. Whatever copies, compares, formats or encodes
    such a value weighs it first.
    """
    try:
        return most - _left((value,), most, set())
    except LimitExceeded:
        return most + 1


def nesting_depth(value: Any) -> int:
    """Return the nesting depth of a value's containers; 0 for a scalar."""
    pending, visited, deepest = [iter((value,))], set[int](), 0
    while pending:
        for item in pending[-1]:
            if isinstance(item, _CONTAINERS) and id(item) not in visited:
                visited.add(id(item))
                pending.append(iter(item.values() if isinstance(item, dict) else item))
                deepest = max(deepest, len(pending) - 1)
                break
        else:
            pending.pop()
    return deepest


def require_shallow_arguments(tool: Any, arguments: tuple[Any, ...]) -> None:
    """Raise LimitExceeded for arguments nested too deep to copy once a tool stores them."""
    nesting = nesting_depth(arguments)
    if nesting > 1 and nesting + nesting_depth(getattr(tool, "__dict__", {})) > MAX_NESTED:
        raise LimitExceeded(f"tools hold no values nested deeper than {MAX_NESTED}")


def _left(items: Iterable[Any], left: int, path: set[int]) -> int:
    """Subtract the items' size from an allowance.

    Raises LimitExceeded if it is too small.
    """
    for item in items:
        kind = type(item)
        if kind is str:
            left -= 1 + len(item) // CHARS_PER_WEIGHT
        elif kind is int:
            left -= 1 + item.bit_length() // BITS_PER_WEIGHT
        elif isinstance(item, _CONTAINERS) and id(item) not in path:
            left = _left_behind(item, left - 1, path)
        elif isinstance(item, str | bytes):
            left -= 1 + len(item) // CHARS_PER_WEIGHT
        else:
            left -= 1
        if left < 0:
            raise LimitExceeded("the result would be too large")
    return left


def _left_behind(container: Any, left: int, path: set[int]) -> int:
    parts = (container, container.values()) if isinstance(container, dict) else (container,)
    path.add(id(container))
    if len(path) > MAX_NESTED:
        raise LimitExceeded(f"values nested deeper than {MAX_NESTED} are not passed on")
    for part in parts:
        counted = _of_one_kind(part) if len(part) >= _LONG else None
        left = _left(part, left, path) if counted is None else left - counted
    path.discard(id(container))
    return left


def _of_one_kind(items: Collection[Any]) -> int | None:
    """Return the size of many atoms of one type; None for other items."""
    kinds = {*map(type, items)}
    if kinds == {str}:
        return len(items) + sum(map(len, items)) // CHARS_PER_WEIGHT
    if kinds == {int}:
        return len(items) + sum(map(int.bit_length, items)) // BITS_PER_WEIGHT
    return len(items) if kinds <= _WEIGHTLESS else None
