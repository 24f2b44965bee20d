"""Source text of one Python expression, parsed and never run."""

from __future__ import annotations

import ast
import threading
import warnings

# Reading a tree counts its depth in a place all threads share (CPython 3.11 raises SystemError where two meet there),
# and warning filters are the process's own: hence one thread at a time.
_PARSING = threading.Lock()
_TRIES = 3  # against a thread that parses without the lock


def parse_expression(source: str, filename: str = "<unknown>", *, compiled: bool = False) -> ast.expr:
    """Return the tree of one expression; raises SyntaxError, ValueError, RecursionError or MemoryError as `ast.parse`.

    `compiled` also raises what the interpreter finds only behind its parser (a keyword argument given twice, `await`
    outside a function): the compiled code is thrown away, so nothing runs. An escape such as "\\d" is never an error,
    whatever warnings are set to do.
    """
    with _PARSING:
        if "\\" not in source and not compiled:
            return _tree(source, filename)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if compiled:
                compile(source, filename, "eval", dont_inherit=True)
            return _tree(source, filename)


def _tree(source: str, filename: str) -> ast.expr:
    for _ in range(_TRIES - 1):
        try:
            return ast.parse(source, filename, mode="eval").body
        except SystemError:
            continue
    return ast.parse(source, filename, mode="eval").body
