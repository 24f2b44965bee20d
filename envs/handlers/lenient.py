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
from importlib import import_module
from typing import Any, NamedTuple

from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.handlers.call_format import IN_JSON, closing_bracket_end, to_json
from fctncalling.envs.handlers.form_calls import FormCalls
from fctncalling.envs.handlers.handler import (
    DecodedAction,
    DecodeError,
    Handler,
    require_readable_text,
    require_shallow_nesting,
)
from fctncalling.envs.handlers.json_calls import OpenAIMessages
from fctncalling.envs.handlers.return_formats import CLOSE_TAG, OPEN_TAG, JsonReturn, ReturnFormat


def json_span(text: str) -> str:
    """Return the JSON span of a text: its first object, or list of objects."""
    if opening := re.search(r"\[\s*\{|\{", text):
        return text[opening.start() : closing_bracket_end(text, opening.start(), IN_JSON)]
    return text


def python_span(text: str) -> str:
    """Return the Python span of a text: its first list of calls, or lines of calls as one."""
    opening = re.search(r"\[\s*(?<![\w.])[A-Za-z_][\w.]*\(", text)
    if opening:
        return text[opening.start() : closing_bracket_end(text, opening.start())]
    lines = [line.strip().rstrip(",;") for line in text.splitlines()]
    calls = [line for line in lines if re.fullmatch(r"[A-Za-z_][\w.]*\(.*\)", line)]
    return f"[{', '.join(calls)}]" if calls else text


PREFIX = "lenient:"
HERMES = "hermes_calls"
MAX_LENIENT_CHARS = 30_000
"""Longer texts are read strictly and no other way, so that no text takes several times the time of
a strict reading.
"""
MAX_REPAIR_READS = 50_000
"""Looks at a character of one text whose JSON is repaired: some 0.04 seconds, and several times
what an answer takes.
"""
_CHARS_PER_READ = 64  # of a part that is taken at once

_FENCE = re.compile(r"```[A-Za-z_]*[ \t]*\n(.*?)```", re.DOTALL)


class MissingJsonRepairExtra(ImportError):
    """Missing extra for JSON repair: our failure, never the text's."""


class _Reading(NamedTuple):
    """A text as the strict handler is to read it."""

    meant: str
    repairs: tuple[str, ...]  # by which it came about; none where the text is read as it stands
    action: DecodedAction | None  # what the strict handler makes of it; None where nothing
    calls: tuple[Call, ...]
    error: DecodeError | None  # why calls cannot be read


class _TooManyReads(Exception):
    """The repairing library goes over a text again and again."""


_ITEM = str.__getitem__  # found once: texts are read a hundred thousand times


class _Metered(str):
    """A text that is read so many times and no more, with all that is made of it.

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
    """Lenient calls: a handler that repairs what another cannot read, and writes as that does.

    Raises MissingJsonRepairExtra for a form made of JSON without the library, unless `repair_json`
    is False.
    """

    is_lenient = True

    def __init__(self, handler: Handler, *, repair_json: bool = True) -> None:
        self.strict = handler
        self.name = PREFIX + handler.name
        self._repair = _json_repair() if repair_json and _is_json(handler) else None
        # The text read last, what it was taken for, by what repairs.
        self._last = ("", "", tuple[str, ...]())

    def recognises(self, text: str) -> bool:
        """Whether the strict handler recognises the text, or a repair finds calls in it."""
        if self.strict.recognises(text):
            return True
        return len(text) <= MAX_LENIENT_CHARS and bool(self._read(text).calls)

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once, with what had to be repaired.

        Raises DecodeError as the strict handler does.
        """
        reading = self._read(text, functions)
        if reading.action is None:
            raise reading.error or DecodeError("shape", "expected calls")
        reading.action.repairs = reading.repairs
        return reading.action

    def render(self, calls: Sequence[Call]) -> str:
        """Render calls as their canonical text; ValueError for what the form cannot say."""
        return self.strict.render(calls)

    def _read(self, text: str, functions: Sequence[FunctionDoc] = ()) -> _Reading:
        require_readable_text(text)
        known, meant, repairs = self._last  # what does not decode is looked at once more
        if text == known:
            return self._reading(meant, functions, repairs)
        reading = self._mended(text, functions)
        self._last = (text, reading.meant, reading.repairs)
        return reading

    def _mended(self, text: str, functions: Sequence[FunctionDoc]) -> _Reading:
        reading = self._reading(text, functions)
        # An argument that cannot be read is one of a call.
        unread = reading.error is not None and reading.error.kind in ("value", "size")
        if reading.calls or unread or len(text) > MAX_LENIENT_CHARS:
            return reading
        meant = text
        repairs: list[str] = []
        for repair, step in self._steps():
            changed = step(meant)
            if changed in (meant, "") or len(changed) > MAX_LENIENT_CHARS:
                continue
            meant = changed
            repairs.append(repair)
            found = self._reading(meant, functions, tuple(repairs))
            if found.calls:
                return found
        return reading

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

    def _reading(
        self, meant: str, functions: Sequence[FunctionDoc], repairs: tuple[str, ...] = ()
    ) -> _Reading:
        action, calls, error = None, tuple[Call, ...](), None
        try:
            action = self.strict.decode_action(meant, functions)
            calls = action.calls
        except DecodeError as fault:
            error = fault
        return _Reading(meant, repairs, action, calls, error)

    def _json_repaired(self, text: str) -> str:
        reads = [MAX_REPAIR_READS]
        opens, closes = _marks_around(self.strict)
        if not opens or opens not in text:
            return self._repaired(text, reads)
        blocks = (each.rstrip().removesuffix(closes) for each in text.split(opens)[1:])
        return "\n".join(f"{opens}\n{self._repaired(each, reads)}\n{closes}" for each in blocks)

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


def _marks_around(handler: Handler) -> tuple[str, str]:
    """Return the marks around each call, or all of them, of a form; empty where it has none."""
    way = handler.form.ways[0] if isinstance(handler, FormCalls) else ("", "", "")
    return way[0].strip(), way[-1].strip()


def _is_json(handler: Handler) -> bool:
    if isinstance(handler, FormCalls):
        return handler.form.ways[0][1] in ("object", "list", "lines")
    return isinstance(handler, OpenAIMessages | JsonReturn) or handler.name == "tool_calls"


def _json_repair() -> Callable[[str], Any]:
    try:
        loads: Callable[[str], Any] = import_module("json_repair").loads
    except ImportError:
        raise MissingJsonRepairExtra(
            "JSON is repaired by the library json-repair, which is not installed: pip install "
            "'fctncalling[repair]', or ask for no repair with LenientCalls(handler, "
            "repair_json=False)"
        ) from None
    return loads


def _decoded(call: Any) -> Any:
    """Return a call with its arguments decoded where they are JSON text."""
    for key in ("arguments", "parameters"):
        if isinstance(call, dict) and isinstance(call.get(key), str):
            with suppress(ValueError, RecursionError):
                return {**call, key: json.loads(call[key])}
    return call


def _inside_fence(text: str) -> str:
    found = _FENCE.search(text)
    return found[1].strip() if found else text


def _tagged(text: str) -> str:
    start = text.find(OPEN_TAG)
    inside = text if start < 0 else text[start + len(OPEN_TAG) :]
    return f"{OPEN_TAG}{inside.partition(CLOSE_TAG)[0]}{CLOSE_TAG}"
