"""Mistral's formats, all behind [TOOL_CALLS]: one JSON list, or names each with their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fctncalling.data.types import Call
from fctncalling.envs.handlers.call_format import (
    NativeToolCallFormat,
    Record,
    parse_call_object,
    parse_json,
    parse_json_at,
    skip_blanks,
    to_json,
)
from fctncalling.envs.handlers.handler import DecodeError, require_readable_text
from fctncalling.envs.handlers.json_calls import call_to_json

_CALLS, _ARGS, _ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"


class MistralCalls(NativeToolCallFormat):
    """Mistral calls: a handler that reads each of its formats and writes the list.

    With `by_name` it writes the newer `[TOOL_CALLS]name[ARGS]{...}`. Text before the first mark is
    content and let be. Without a mark, which many tokenizers drop as they decode, the whole text
    must be the list, as in BFCL's handler.
    """

    def __init__(self, *, by_name: bool = False) -> None:
        self._by_name = by_name
        self.name = "mistral_named_calls" if by_name else "mistral_calls"

    def recognises(self, text: str) -> bool:
        """Whether the handler recognises the text: Mistral's mark stands in it."""
        start = text.find(_CALLS)
        return start >= 0 and not text[:start].lstrip("`\n ").startswith(("[", "{"))

    def decode_ast(self, text: str) -> Record:
        """Decode a text to the AST record of the calls behind the mark; raises DecodeError."""
        require_readable_text(text)
        content, mark, rest = text.partition(_CALLS)
        if mark and not rest.lstrip().startswith(("[", "{")):
            return _named_calls(text, len(content))
        listed = parse_json(rest if mark else text)
        if not isinstance(listed, list):
            raise DecodeError("shape", "expected a list of calls")
        return [parse_call_object(each, "arguments") for each in listed]

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield candidate texts: the list behind the mark, or each call behind one."""
        if self._by_name and calls:
            yield "".join(
                f"{_CALLS}{call.name}{_ARGS}{to_json(dict(call.arguments))}" for call in calls
            )
        else:
            yield _CALLS + to_json([call_to_json(call, "arguments") for call in calls])


def _named_calls(text: str, index: int) -> Record:
    record = []
    while index < len(text):
        if not text.startswith(_CALLS, index):
            raise DecodeError("syntax", f"expected {_CALLS} at character {index}")
        opening = text.find("{", index)
        if opening < 0:
            raise DecodeError("syntax", "expected an object of arguments")
        name = (
            text[index + len(_CALLS) : opening]
            .strip()
            .removesuffix(_ARGS)
            .partition(_ID)[0]
            .strip()
        )
        if not name or "[" in name:
            raise DecodeError("shape", f"expected a function's name, got {name[:80]!r}")
        arguments, index = parse_json_at(text, opening)
        record.append(parse_call_object({"name": name, "arguments": arguments}, "arguments"))
        index = skip_blanks(text, index)
    return record
