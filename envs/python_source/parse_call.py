"""Syntax trees of call strings, cached."""

from __future__ import annotations

import ast
from functools import lru_cache

from fctncalling.envs.python_source.parse import parse_expression

MAX_CACHED_CHARS = 1000  # of a call string whose tree is kept


def parse_call(source: str) -> ast.expr:
    """Return the tree of one expression, shared and never to be changed.

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
