"""JSON formats of calls: BFCL's, and OpenAI messages.

Where BFCL has a decoder of the form, what differs from it is said at the class. Names are left as
they came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from fctncalling.data.types import Call, tool_call
from fctncalling.envs.handlers.handler import (
    CallFormat,
    DecodeError,
    Record,
    parse_call_object,
    parse_json,
    require_readable_text,
    to_json,
)

OPENING = re.compile(
    r'\s*+(?>(?:```(?:json)?\s*+)?)\[?+\s*+\{(?:\s*+"((?>(?:[^"\\]|\\.)*))"\s*+:)?'
)
CALL_KEYS = ("name", "arguments", "parameters", "type", "id")
_TOOL_CALL_KEYS = ("id", "type", "function", "index")
_FUNCTION_OBJECT = re.compile(r'"function"\s*:\s*\{')


class OpenAIMessages(CallFormat):
    """Handler of OpenAI's assistant messages with `tool_calls`, or of that list alone.

    Arguments are JSON text there; an object, as chat templates want it, is read too. A message
    without calls is content, hence holds none.
    """

    name = "openai_messages"
    is_native = True

    def recognises(self, text: str) -> bool:
        """Whether the text is a message with `tool_calls`, or their list."""
        opening = OPENING.match(text)
        key = opening[1] if opening else None
        if key in _TOOL_CALL_KEYS:
            return _FUNCTION_OBJECT.search(text) is not None
        return key in ("role", "content", "tool_calls") and '"tool_calls"' in text

    def decode_ast(self, text: str) -> Record:
        """Decode a message to the record of its calls; raises DecodeError."""
        require_readable_text(text)
        value = parse_json(text)
        if isinstance(value, dict):
            if "tool_calls" not in value and not ("role" in value and "content" in value):
                raise DecodeError("shape", 'expected a message with "tool_calls"')
            value = value.get("tool_calls") or []
        if not isinstance(value, list):
            raise DecodeError("shape", "expected a list of tool calls")
        return [_function_call(call) for call in value]

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the one candidate text: a message without content."""
        tool_calls = [
            tool_call(f"call_{number}", call.name, to_json(dict(call.arguments)))
            for number, call in enumerate(calls)
        ]
        yield to_json({"role": "assistant", "content": None, "tool_calls": tool_calls})


def _function_call(call: Any) -> dict[Any, Any]:
    if not isinstance(call, dict) or call.get("type", "function") != "function":
        raise DecodeError("shape", 'expected tool calls of type "function"')
    function = call.get("function")
    if not isinstance(function, dict):
        raise DecodeError("shape", 'expected each tool call with a "function"')
    arguments = function.get("arguments")
    parsed = parse_json(arguments) if isinstance(arguments, str) else arguments
    return parse_call_object({**function, "arguments": parsed}, "arguments")


class BfclFunctionCalls(CallFormat):
    """Handler of BFCL's function-calling form: [{name: arguments}] in JSON.

    Dots in names were sent as underscores; decoding leaves names as they came.
    """

    name = "tool_calls"
    is_native = True

    def recognises(self, text: str) -> bool:
        """Whether the text opens with a JSON list of objects."""
        return text.lstrip().removeprefix("[").lstrip().startswith("{")

    def decode_ast(self, text: str) -> Record:
        """Decode as BFCL's AST decoder does: [{name: arguments}]; the arguments may be any JSON.

        Raises DecodeError.
        """
        require_readable_text(text)
        listed = parse_json(text)
        # BFCL walks over whatever it gets, so an empty object or string holds no calls, and no
        # error either.
        if not isinstance(listed, list) and listed not in ({}, ""):
            raise DecodeError(
                "shape", f"expected a JSON list of calls, got {type(listed).__name__}"
            )
        return [_official_call(call) for call in listed]

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the one candidate text: a list, with arguments as JSON text."""
        yield json.dumps([{call.name: json.dumps(dict(call.arguments))} for call in calls])


def _official_call(call: Any) -> dict[Any, Any]:
    if not isinstance(call, dict) or not call:
        raise DecodeError("shape", "expected each call as {name: arguments}")
    name, arguments = next(iter(call.items()))  # BFCL reads the first key and no other
    if not isinstance(arguments, str):
        raise DecodeError("shape", f"{name}: expected the arguments as JSON text")
    return {name: parse_json(arguments)}
