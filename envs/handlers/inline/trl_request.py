"""TRL's call syntax.

`<request><Tool>query<call>`, answered by `result<response>`, ended by `<submit>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fctncalling.data.types import Call
from fctncalling.envs.handlers.inline.inline_calls import CallBlock, InlineCalls

REQUEST, CALL, RESPONSE, SUBMIT = "<request>", "<call>", "<response>", "<submit>"
QUERY = "query"
"""The argument that a request's text becomes; the environment gives it to the tool's parameter,
whatever its name.
"""

_TOOL = re.compile(r"\s*<([^<>\n]+)>")


class RequestCalls(InlineCalls):
    """TRL's requests: a tool's name, and one text for it. The four marks can be changed."""

    name = "request_call"

    def __init__(
        self,
        request: str = REQUEST,
        call: str = CALL,
        response: str = RESPONSE,
        submit: str = SUBMIT,
    ) -> None:
        self.tags = (request, call, response, submit)
        if len(set(self.tags)) < 4 or min(map(len, self.tags)) < 2:
            raise ValueError(
                f"the marks are {self.tags}: expected four different texts of two characters or "
                "more"
            )
        self.stop = (call, submit)
        self.submit = submit
        self.usage = f"{request}<tool>query{call} calls a tool, Result=answer{submit} ends."
        self._opening = re.compile(re.escape(request))
        self._closing = re.compile(re.escape(call))

    def respond(self, result: str) -> str:
        """Return the result and the mark behind it."""
        return f"{result}{self.tags[2]}"

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the requests, one behind the other."""
        if any(list(call.arguments) != [QUERY] for call in calls):
            raise ValueError(
                f"a request has one argument, {QUERY}; got "
                f"{[dict(call.arguments) for call in calls]}"
            )
        request, end = self.tags[:2]
        yield "".join(f"{request}<{call.name}>{call.arguments[QUERY]}{end}" for call in calls)

    def _block(self, start: int, end: int, inside: str) -> CallBlock:
        tool = _TOOL.match(inside)
        if tool is None:
            return CallBlock(start, end, None, f"expected {self.tags[0]}<tool>query{self.tags[1]}")
        return CallBlock(start, end, {tool[1]: {QUERY: inside[tool.end() :]}})
