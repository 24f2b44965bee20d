"""Inline Hermes and Qwen calls: the message goes on behind each result, without a new turn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fctncalling.data.types import Call
from fctncalling.envs.handlers.call_format import named_call, parse_json
from fctncalling.envs.handlers.handler import DecodeError
from fctncalling.envs.handlers.inline.inline_calls import CallBlock, InlineCalls
from fctncalling.envs.handlers.json_calls import HermesCalls

_HERMES = HermesCalls()


class HermesText(InlineCalls):
    """One JSON object of name and arguments between tags; several arguments, of any JSON type."""

    name = "hermes_text"
    stop = ("</tool_call>",)
    tags = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
    usage = '<tool_call>{"name": ..., "arguments": {...}}</tool_call> calls a tool.'
    _opening, _closing = re.compile("<tool_call>"), re.compile("</tool_call>")

    def respond(self, result: str) -> str:
        """Return the result between its tags."""
        return f"\n<tool_response>\n{result}\n</tool_response>\n"

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield what Hermes' handler of whole messages yields."""
        return _HERMES.candidate_texts(calls)

    def _block(self, start: int, end: int, inside: str) -> CallBlock:
        try:
            return CallBlock(start, end, named_call(parse_json(inside), "arguments"))
        except DecodeError as error:
            return CallBlock(start, end, None, error.message)
