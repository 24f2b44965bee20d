"""Handler, the base class of all formats, with DecodedAction and DecodeError."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from inspect import signature
from typing import Any

from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.python_source.parse import PlainCall
from fctncalling.envs.python_source.render import MAX_NESTED, render_call

MAX_TEXT_CHARS = 65_536
"""The longest text a handler reads: several times what a model says in a turn; a longer one is
refused unread.
"""
FENCE = "`\n "
"""Characters that BFCL strips from both ends of a text."""
_BRACKETS = "[{("


class DecodeError(ValueError):
    """Error of a text that does not decode to calls: a model's mistake, hence data.

    `kind` is one of "syntax" (does not parse), "shape" (parses, but is not calls), "value" (an
    argument that is no literal) and "size" (longer or deeper than is read at all).
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def require_shallow_nesting(value: Any, text: str) -> None:
    """Require shallow nesting of a value: DecodeError for one deeper than code here can walk."""
    if len(text) <= MAX_NESTED or sum(map(text.count, _BRACKETS)) <= MAX_NESTED:
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


class DecodedAction:
    """Decoded action: the record for the checkers, the calls, their call strings.

    Calls and call strings are derived from the record when they are first needed; either raises
    DecodeError where there is none, for BFCL judges records whose calls no tool can be handed.
    """

    def __init__(
        self,
        record: Any,
        calls_of_record: Callable[[Any], Sequence[Call]],
        call_strings_of: Callable[[Sequence[Call]], Sequence[str]],
        plain: Sequence[PlainCall] | None = None,
    ) -> None:
        self.record = record  # what BFCL's decode_ast returns
        self.repairs: tuple[str, ...] = ()  # what a lenient handler mended before it read the text
        self._calls_of = calls_of_record
        self._call_strings_of = call_strings_of
        self._plain = plain

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The decoded calls in order; their arguments are the record's own objects."""
        return tuple(self._calls_of(self.record))

    @cached_property
    def call_strings(self) -> tuple[str, ...]:
        """The call strings that BFCL hands to the tools, in order."""
        return tuple(self._call_strings_of(self.calls))

    @property
    def executable_calls(self) -> Sequence[str | PlainCall]:
        """The calls in executable form: call strings, or plain calls in their place.

        For one execution, since a tool may change the arguments that it is handed.
        """
        return self.call_strings if self._plain is None else self._plain


class Handler(ABC):
    """Handler of one call format: text to calls and back, all pure; raises only DecodeError."""

    name: str
    is_lenient = False  # whether texts are mended before they are read
    variant: PromptVariant | None = None  # the prompt variant that the handler is of

    @abstractmethod
    def recognises(self, text: str) -> bool:
        """Whether the handler recognises the text; cheap, and no promise that it decodes."""

    @abstractmethod
    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once: record, calls and call strings.

        `functions`: those on offer, for the types of values that a form writes as bare text. A
        subclass may leave the parameter out.
        """

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Let a subclass whose `decode_action` takes the text alone be handed functions too."""
        super().__init_subclass__(**keywords)
        own = cls.__dict__.get("decode_action")
        if own is not None and len(signature(own).parameters) == 2:
            cls.decode_action = lambda self, text, functions=(): own(self, text)  # type: ignore[method-assign]

    @abstractmethod
    def render(self, calls: Sequence[Call]) -> str:
        """Render calls as their canonical text, which decodes to them.

        ValueError where the form cannot say them.
        """

    def decode(self, text: str, functions: Sequence[FunctionDoc] = ()) -> list[Call]:
        """Decode a text to its calls; an empty list where it states that there are none."""
        return list(self.decode_action(text, functions).calls)

    def decode_ast(self, text: str) -> Any:
        """Decode a text as BFCL's AST decoder of this format does, to its record.

        The record that its AST checkers judge.
        """
        return self.decode_action(text).record

    def decode_execute(self, text: str) -> list[str]:
        """Decode a text for execution: the call strings that BFCL hands to the tools, in order."""
        return list(self.decode_action(text).call_strings)


def bfcl_call_strings(calls: Sequence[Call]) -> list[str]:
    """Return call strings as BFCL executes those of its prompting form, `name(k=repr(v), ...)`."""
    return [render_call(call.name, call.arguments) for call in calls]


def bracketed(text: str) -> str:
    """Return a text as BFCL reads it: without fences around it, in brackets; DecodeError."""
    require_readable_text(text)
    text = text.strip(FENCE)
    text = text if text.startswith("[") else f"[{text}"
    return text if text.endswith("]") else f"{text}]"


def require_readable_text(text: str) -> None:
    """Require a readable text: DecodeError for no text, or one longer than MAX_TEXT_CHARS."""
    if not isinstance(text, str):
        raise DecodeError("shape", f"expected text, got {type(text).__name__}")
    if len(text) > MAX_TEXT_CHARS:
        raise DecodeError(
            "size", f"the text has {len(text)} characters; at most {MAX_TEXT_CHARS} are read"
        )
