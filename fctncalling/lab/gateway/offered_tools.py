"""Tools that a request is offered: of many, those that its users' words fit best."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from functools import lru_cache

from fctncalling.lab.gateway.chat_messages import function_docs
from fctncalling.lab.gateway.completion_request import CompletionRequest
from fctncalling.lab.own_api.function_choice import FunctionChoice


def with_offered_tools(request: CompletionRequest, offered: int | None) -> CompletionRequest:
    """Return a request with so many of its tools at most, chosen by the whole conversation.

    None: all of them, as sent.
    """
    if offered is None or len(request.tools) <= offered:
        return request
    texts = [str(each.get("content") or "") for each in request.messages if each["role"] == "user"]
    docs = [asdict(each) for each in function_docs(request.tools)]
    chosen = _choice(json.dumps(docs), offered).chosen("\n".join(texts))
    return replace(request, tools=tuple(request.tools[number] for number in chosen))


@lru_cache(maxsize=4)
def _choice(docs: str, offered: int) -> FunctionChoice:
    return FunctionChoice(json.loads(docs), offered, math.inf)
