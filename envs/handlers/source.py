"""Source text of one Python expression, parsed and never run."""

from __future__ import annotations

import ast
import re
import threading
import warnings

MAX_TOKENS = 6_000
"""The most words, strings and marks of a source that is parsed: read and evaluated in some 25 milliseconds."""
MAX_FORMAT_BRACES = 500
"""The most opening braces of a source with f-strings: CPython 3.11 starts its parser anew at each of them."""

# Every string matches, closed or not, so that no character is looked at twice.
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*+(?:\'\'\')?'
    r'|"(?:[^"\\\n]|\\.)*+"?|\'(?:[^\'\\\n]|\\.)*+\'?|#[^\n]*+|\w++|[^\w\s]',
    re.DOTALL,
)
_FORMAT = re.compile(r"(?i)\b(?:f|fr|rf)[\"']")

# Reading a tree counts its depth in a place all threads share (CPython 3.11 raises SystemError where two meet there),
# and warning filters are the process's own: hence one thread at a time.
_PARSING = threading.Lock()
_TRIES = 3  # against a thread that parses without the lock


class SourceTooLarge(ValueError):
    """A source of more than is parsed."""


def require_small(*sources: str) -> None:
    """Raise SourceTooLarge for more than is parsed of one text, in one expression or several."""
    if sum(map(len, sources)) > MAX_TOKENS:  # a token has a character
        num_tokens = sum(len(_TOKEN.findall(source)) for source in sources)
        if num_tokens > MAX_TOKENS:
            raise SourceTooLarge(f"the source has {num_tokens} words and marks; at most {MAX_TOKENS} are read")
    for source in sources:
        if source.count("{") > MAX_FORMAT_BRACES and _FORMAT.search(source):
            raise SourceTooLarge(f"a source with f-strings has at most {MAX_FORMAT_BRACES} braces")


def parse_expression(source: str, filename: str = "<unknown>", *, compiled: bool = False) -> ast.expr:
    """Return the tree of one expression; raises SyntaxError, ValueError, RecursionError or MemoryError as `ast.parse`.

    Raises SourceTooLarge, a ValueError, for more of it than is parsed: nothing is, then.
    `compiled` also raises what the interpreter finds only behind its parser (a keyword argument given twice, `await`
    outside a function): the compiled code is thrown away, so nothing runs. An escape such as "\\d" is never an error,
    whatever warnings are set to do.
    """
    require_small(source)
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
