"""tree-sitter parsers of Java and JavaScript, loaded on first use.

A grammar's repair of hopeless text costs more than the square of what it has read so far. Hence the
bounds below, which are found without parsing and are the same on every machine: within them a text
is read or refused in some 50 milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from fctncalling.envs.errors import extra_module
from fctncalling.envs.handlers.handler import DecodeError, require_readable

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_SOURCE_CHARS = 16_384
"""The longest source that is parsed: what a model says in a long turn."""
MAX_TOKENS = 1_000
"""The most words, strings and marks of it."""
MAX_DEPTH = 100
"""The most operators and brackets that wait for their end at once: a repair tries them all."""

_SHORT_CHARS = 256  # so little is parsed in a few milliseconds, whatever it says
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"?|\'(?:[^\'\\\n]|\\.)*\'?|\w+|[^\w\s.]', re.DOTALL)
_OPERATORS = frozenset("=<>!~+-*/%&|^?:@#\\")


def require_grammar(language: str) -> None:
    """Raise MissingExtra where a language's grammar is not installed, before the first text."""
    _grammar(language)


def encoded(source: str) -> bytes:
    """Return the source as bytes for the parser; raises DecodeError for what is never parsed."""
    require_readable(source)
    if len(source) > MAX_SOURCE_CHARS:
        raise DecodeError(
            "size", f"the source has {len(source)} characters; at most {MAX_SOURCE_CHARS} are read"
        )
    if len(source) > _SHORT_CHARS:
        _require_flat(_TOKEN.findall(source))
    try:
        return source.encode()
    except UnicodeEncodeError:
        raise DecodeError("syntax", "half a surrogate pair is no source text") from None


def _require_flat(tokens: Sequence[str]) -> None:
    if len(tokens) > MAX_TOKENS:
        raise DecodeError(
            "size", f"the source has {len(tokens)} words and marks; at most {MAX_TOKENS} are read"
        )
    # What waits for its end; what did when each bracket was opened.
    waiting, before = (
        0,
        list[int](),
    )
    operand = (
        True  # whether the last token ends an operand, so that a comma or bracket ends what waits
    )
    for token in tokens:
        if token in "([{":
            before.append(waiting)
            waiting += 1
        elif token in ")]}" and operand:
            waiting = before.pop() if before else 0
        elif token in ",;" and operand:
            waiting = before[-1] + 1 if before else 0
        elif len(token) == 1 and not token.isalnum():
            waiting += 1
        operand = token not in _OPERATORS
        if waiting > MAX_DEPTH:
            raise DecodeError(
                "size", f"the source nests deeper than {MAX_DEPTH} operators and brackets"
            )


def root_of(source: bytes, language: str) -> Node:
    """Return the root of the source's tree.

    Raises DecodeError for no tree, MissingExtra for no grammar.

    As in BFCL a token that the parser had to insert is no fault, one that it had to skip is.
    """
    # One each time: it is for one thread.
    parser = _library("tree_sitter", language).Parser(_grammar(language))
    root: Node = parser.parse(source).root_node
    if root.has_error and any(node.is_error for node in _faulty(root)):
        raise DecodeError("syntax", f"this is not {language}")
    return root


def inserted(root: Node) -> list[Node]:
    """Return the tokens that the parser had to insert."""
    return [node for node in _faulty(root) if node.is_missing]


def _faulty(root: Node) -> Iterator[Node]:
    """Yield the nodes with a fault in them or below."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        yield node
        nodes.extend(child for child in node.children if child.has_error)


@cache
def _grammar(language: str) -> Any:
    grammar = _library(f"tree_sitter_{language}", language)
    return _library("tree_sitter", language).Language(grammar.language())


@cache
def _library(name: str, language: str) -> Any:
    return extra_module(name, language, f"reading {language} calls")
