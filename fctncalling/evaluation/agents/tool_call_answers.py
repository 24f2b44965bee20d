"""Answers in BFCL's form of tool calls, from the texts of a model's own form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fctncalling.data.types import Call
from fctncalling.envs.handlers import get_handler


def as_tool_calls(response: Any, calls: Mapping[str, tuple[Call, ...]]) -> Any:
    """Return an answer in BFCL's form of tool calls, from the texts of the model's own form."""
    if isinstance(response, list):
        return [as_tool_calls(each, calls) for each in response]
    if not (read := calls.get(response, ())):
        return json.dumps(response) if response.lstrip().startswith("[") else response
    try:
        return get_handler("tool_calls").render(read)
    except ValueError:  # a tuple, say, which JSON cannot say
        return json.dumps(
            [{call.name: json.dumps(dict(call.arguments), default=str)} for call in read]
        )
