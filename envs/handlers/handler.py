"""Handler protocol and DecodeError."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fctncalling.data.types import Call
from fctncalling.envs.python_source.value_size import MAX_NESTED

MAX_TEXT_CHARS = 65_536
"""The longest text a handler reads: several times what a model says in a turn; a longer one is
refused unread.
"""
_BRACKETS = "[{("


class DecodeError(ValueError):
    """Text that does not decode to calls: a model's mistake, hence data.

    `kind` is one of "syntax" (does not parse), "shape" (parses, but is not calls), "value" (an
    argument that is no literal) and "size" (longer or deeper than is read at all).
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def require_shallow(value: Any, text: str) -> None:
    """Raise DecodeError for a value, read from a text, that nests deeper than all code here could
    walk.
    """
    if sum(map(text.count, _BRACKETS)) <= MAX_NESTED:
        return
    level, depth = [value], 0
    while level:
        if depth > MAX_NESTED:
            raise DecodeError("size", f"nested deeper than {MAX_NESTED} is not read")
        level = [
            item
            for each in level
            if isinstance(each, list | tuple | dict)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        depth += 1


class Handler(Protocol):
    """One written form of calls. Every method is pure; each decoder raises DecodeError and nothing
    else.
    """

    name: str

    def recognises(self, text: str) -> bool:
        """Whether the text looks as if it were meant in this form; cheap, and no promise that it
        decodes.
        """
        ...

    def decode(self, text: str) -> list[Call]:
        """Return the calls a text holds; an empty list where it says in so many words that there
        are none.
        """
        ...

    def decode_ast(self, text: str) -> Any:
        """Return what BFCL's decoder of this form makes of the text: the record its AST checkers
        judge.
        """

    def decode_execute(self, text: str) -> list[str]:
        """Return the call strings that BFCL's decoder of this form hands to the tools, in order."""
        ...

    def render(self, calls: Sequence[Call]) -> str:
        """Return the canonical text of calls, which decodes to them; ValueError where the form
        cannot say them.
        """
        ...


def require_readable(text: str) -> None:
    """Raise DecodeError for what is no text, or more of it than is read."""
    if not isinstance(text, str):
        raise DecodeError("shape", f"expected text, got {type(text).__name__}")
    if len(text) > MAX_TEXT_CHARS:
        raise DecodeError(
            "size", f"the text has {len(text)} characters; at most {MAX_TEXT_CHARS} are read"
        )
