"""Parser of Python source text to syntax trees, size-limited and thread-safe; nothing is run."""

from __future__ import annotations

import ast
import os
import re
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

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
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*+(?:\'\'\')?'
    r'|"(?:[^"\\\n]|\\.)*+"?|\'(?:[^\'\\\n]|\\.)*+\'?|#[^\n]*+|\w++|[^\w\s]',
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
    """Source too large for the parser's limits."""


def is_small_source(*sources: str) -> bool:
    """Whether the source is small enough to be parsed, by its tokens; of several texts all."""
    return (
        sum(map(len, sources)) <= MAX_TOKENS
        or sum(len(_TOKEN.findall(source)) for source in sources) <= MAX_TOKENS
    )


def require_small_source(*sources: str) -> None:
    """Require a small source: SourceTooLarge unless the sources of one text can be parsed."""
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
    r"""Parse an expression of Python to its tree.

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
    """Return what `parse` does, tried again where another thread's parsing came between."""
    for _ in range(_TRIES - 1):
        with suppress(SystemError):
            return parse()
    return parse()


MAX_CACHED_CHARS = 1000  # of a call string whose tree is kept


def parse_expression_cached(source: str) -> ast.expr:
    """Parse an expression of Python, cached: the tree is shared and never to be changed.

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
    """Whether the interpreter may refuse, behind its parser, what holds this node."""
    if isinstance(node, ast.Call):
        names = [each.arg for each in node.keywords]
        return len(names) != len(set(names))
    return isinstance(
        node, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr | ast.Starred | ast.Lambda
    )
