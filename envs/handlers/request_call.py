"""TRL's call syntax: `<request><Tool>query<call>`, answered by `result<response>`, ended by `<submit>`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fctncalling.data.types import Call
from fctncalling.envs.handlers.text_calls import Block, TextCalls

REQUEST, CALL, RESPONSE, SUBMIT = "<request>", "<call>", "<response>", "<submit>"
QUERY = "query"
"""The argument that a request's text becomes; the environment gives it to the tool's parameter, whatever its name."""

_TOOL = re.compile(r"\s*<([^<>\n]+)>")


class RequestCalls(TextCalls):
    """Every tool takes one text, and its name stands before it."""

    name = "request_call"
    stop = (CALL, SUBMIT)
    tags = (REQUEST, CALL, RESPONSE, SUBMIT)
    submit = SUBMIT
    usage = f"{REQUEST}<tool>query{CALL} calls a tool, Result=answer{SUBMIT} ends."
    _opening, _closing = re.compile(re.escape(REQUEST)), re.compile(re.escape(CALL))

    def respond(self, result: str) -> str:
        """Return the result and the mark behind it."""
        return f"{result}{RESPONSE}"

    def texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the requests, one behind the other."""
        if any(list(call.arguments) != [QUERY] for call in calls):
            raise ValueError(
                f"a request has one argument, {QUERY}; got {[dict(call.arguments) for call in calls]}"
            )
        yield "".join(f"{REQUEST}<{call.name}>{call.arguments[QUERY]}{CALL}" for call in calls)

    def _block(self, start: int, end: int, inside: str) -> Block:
        tool = _TOOL.match(inside)
        if tool is None:
            return Block(start, end, None, f"expected {REQUEST}<tool>query{CALL}")
        return Block(start, end, {tool[1]: {QUERY: inside[tool.end() :]}})
