"""Lenient decoding: repair near-miss calls and report each repair.

A text that the strict handler finds calls in is read by it, and nothing is repaired. Otherwise
these steps are taken, one upon the other, until there are calls: reasoning is dropped, a code fence
opened, text around the calls dropped, JSON repaired (by
json_repair, the extra "repair"). A text in which no step finds calls is judged as the strict
handler judges it. Names and values are never guessed; but repaired JSON that was cut off ends where
it was cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.errors import import_extra
from fctncalling.envs.handlers.form_calls import FormCalls
from fctncalling.envs.handlers.handler import (
    IN_JSON,
    DecodedAction,
    DecodeError,
    Handler,
    closing_bracket_end,
    require_readable_text,
    require_shallow_nesting,
    to_json,
)
from fctncalling.envs.handlers.return_formats import CLOSE_TAG, OPEN_TAG, ReturnFormat


def json_span(text: str) -> str:
    """Return the part of a text that is its first JSON object, or list of objects."""
    if opening := re.search(r"\[\s*\{|\{", text):
        return text[opening.start() : closing_bracket_end(text, opening.start(), IN_JSON)]
    return text


def python_span(text: str) -> str:
    """Return the part of a text that is its first Python list of calls, or lines of calls."""
    if opening := re.search(r"\[\s*(?<![\w.])[A-Za-z_][\w.]*\(", text):
        return text[opening.start() : closing_bracket_end(text, opening.start())]
    lines = [line.strip().rstrip(",;") for line in text.splitlines()]
    calls = [line for line in lines if re.fullmatch(r"[A-Za-z_][\w.]*\(.*\)", line)]
    return f"[{', '.join(calls)}]" if calls else text


PREFIX = "lenient:"
HERMES = "hermes_calls"
MAX_LENIENT_CHARS = 30_000
"""Longer texts are read strictly alone: repairs would take several times as long."""
MAX_REPAIR_READS = 50_000
"""Looks at a text's characters while JSON is repaired: 0.04 seconds, several times an answer's."""
_CHARS_PER_READ = 64  # of a part that is taken at once

_FENCE = re.compile(r"```[A-Za-z_]*[ \t]*\n(.*?)```", re.DOTALL)


class _TooManyReads(Exception):
    """Error of a repairing library that reads a text too many times."""


_ITEM = str.__getitem__  # found once: texts are read a hundred thousand times


class _Metered(str):
    """Text that may be read a limited number of times, with all its parts.

    The library's work in bounds.

    Clocks would bound it too, but not alike in two readings of one text.
    """

    reads: list[int]  # how many are left, for all parts of a text together

    def __new__(cls, text: str, reads: list[int]) -> _Metered:
        metered = super().__new__(cls, text)
        metered.reads = reads
        return metered

    def __getitem__(self, key: Any) -> str:
        part, reads = _ITEM(self, key), self.reads
        size = len(part)
        reads[0] -= 1 if size == 1 else 1 + size // _CHARS_PER_READ
        if reads[0] < 0:
            raise _TooManyReads
        return part if size < 2 else _Metered(part, reads)

    def __add__(self, other: str) -> str:
        return _Metered(super().__add__(other), self.reads)

    def __radd__(self, other: str) -> str:
        return _Metered(other + str(self), self.reads)


class LenientCalls(Handler):
    """Handler that repairs what a strict one cannot read, and writes as the strict one does.

    Raises MissingExtra for a form made of JSON without the library, unless `repair_json` is False.
    """

    is_lenient = True

    def __init__(self, handler: Handler, *, repair_json: bool = True) -> None:
        self.strict = handler
        self.name = PREFIX + handler.name
        self._repair: Callable[[str], Any] | None = None
        if repair_json and _is_json(handler):
            purpose = f"{self.name} (JSON is repaired, unless repair_json=False)"
            self._repair = import_extra("json_repair", "repair", purpose).loads

    def recognises(self, text: str) -> bool:
        """Whether the strict handler recognises the text, or a repair finds calls in it."""
        if self.strict.recognises(text):
            return True
        with suppress(DecodeError):
            return len(text) <= MAX_LENIENT_CHARS and bool(self.decode_action(text).calls)
        return False

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode a text after repairs, which are listed.

        Raises DecodeError as the strict handler does.
        """
        require_readable_text(text)
        action, calls, error = self._read(text, functions)
        # An argument that cannot be read is one of a call.
        unread = error is not None and error.kind in ("value", "size")
        if not (calls or unread or len(text) > MAX_LENIENT_CHARS):
            meant, repairs = text, list[str]()
            for repair, step in self._steps():
                changed = step(meant)
                if changed in (meant, "") or len(changed) > MAX_LENIENT_CHARS:
                    continue
                meant = changed
                repairs.append(repair)
                mended, calls, _ = self._read(meant, functions)
                if mended is not None and calls:
                    mended.repairs = tuple(repairs)
                    return mended
        if action is None:
            raise error or DecodeError("shape", "expected calls")
        return action

    def render(self, calls: Sequence[Call]) -> str:
        """Write calls as their canonical text; ValueError if the form cannot express them."""
        return self.strict.render(calls)

    def _read(
        self, text: str, functions: Sequence[FunctionDoc]
    ) -> tuple[DecodedAction | None, tuple[Call, ...], DecodeError | None]:
        """Decode a text with the strict handler; return decoded action, calls and error."""
        action = None
        try:
            action = self.strict.decode_action(text, functions)
            return action, action.calls, None
        except DecodeError as fault:
            return action, (), fault

    def _steps(self) -> Iterator[tuple[str, Callable[[str], str]]]:
        yield "reasoning dropped", lambda text: text.rpartition("</think>")[2].strip()
        if isinstance(self.strict, ReturnFormat) and self.strict.tagged:
            yield f"{OPEN_TAG} put around the calls", _tagged
            return
        if self.strict.name != HERMES:
            span = json_span if _is_json(self.strict) else python_span
            yield "code fence dropped", _inside_fence
            yield "text around the calls dropped", span
        if self._repair is not None:
            yield "JSON repaired", self._json_repaired

    def _json_repaired(self, text: str) -> str:
        reads = [MAX_REPAIR_READS]
        way = self.strict.form.ways[0] if isinstance(self.strict, FormCalls) else ("",)
        opens, closes = way[0].strip(), way[-1].strip()
        if not opens or opens not in text:
            return self._repaired(text, reads)
        blocks = (block.rstrip().removesuffix(closes) for block in text.split(opens)[1:])
        return "\n".join(f"{opens}\n{self._repaired(block, reads)}\n{closes}" for block in blocks)

    def _repaired(self, text: str, reads: list[int]) -> str:
        if self._repair is None:
            return text
        try:
            value = self._repair(_Metered(text, reads))
            require_shallow_nesting(value, text)
        except (ValueError, RecursionError, _TooManyReads):
            return text
        if isinstance(self.strict, FormCalls):
            value = [*map(_decoded, value)] if isinstance(value, list) else _decoded(value)
        return to_json(value)


def _is_json(handler: Handler) -> bool:
    if isinstance(handler, FormCalls):
        return handler.form.ways[0][1] in ("object", "list", "lines")
    if isinstance(handler, ReturnFormat):
        return handler.format == "json"
    return handler.name in ("openai_messages", "tool_calls")


def _decoded(call: Any) -> Any:
    """Decode a call's arguments if they are JSON text."""
    for key in ("arguments", "parameters"):
        if isinstance(call, dict) and isinstance(call.get(key), str):
            with suppress(ValueError, RecursionError):
                return {**call, key: json.loads(call[key])}
    return call


def _inside_fence(text: str) -> str:
    fence = _FENCE.search(text)
    return fence[1].strip() if fence else text


def _tagged(text: str) -> str:
    inside = text.partition(OPEN_TAG)[2] if OPEN_TAG in text else text
    return f"{OPEN_TAG}{inside.partition(CLOSE_TAG)[0]}{CLOSE_TAG}"
