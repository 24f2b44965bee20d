"""Chat messages as a request brings them: checked, in one form, with a key to know them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fctncalling.data.types import Message
from fctncalling.data.unsafe_text import encodable_text
from fctncalling.lab.gateway.gateway_error import GatewayError

ROLES = {"developer": "system", "function": "tool"}
"""Roles of newer and older interfaces -> the role that chat templates know."""
_NO_DOC: dict[str, Any] = {"description": "", "parameters": {"type": "object", "properties": {}}}
KNOWN_ROLES = ("system", "user", "assistant", "tool")


def checked_messages(value: Any) -> list[Message]:
    """Return the messages of a request in one form; GatewayError names the first that is none.

    Content is a text, calls are {"id", "name", "arguments"} with arguments as canonical JSON, and
    a result bears the name of the function whose call it answers.
    """
    if not isinstance(value, list) or not value:
        raise GatewayError(400, "messages: expected a list with at least one", param="messages")
    messages = [_checked(each, f"messages[{index}]") for index, each in enumerate(value)]
    names = {call["id"]: call["name"] for each in messages for call in each.get("tool_calls", ())}
    for message in messages:
        answered = message.pop("tool_call_id", "")
        if message["role"] == "tool" and "name" not in message and answered in names:
            message["name"] = names[answered]
    return messages


def message_key(message: Mapping[str, Any]) -> str:
    """Return what tells an assistant message from others: its text and calls, without their ids."""
    calls = [[call["name"], call["arguments"]] for call in message.get("tool_calls", ())]
    return json.dumps([message["content"], calls])


def canonical_arguments(text: str) -> str:
    """Return JSON arguments whose spelling does not depend on who wrote them; other text as is."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _checked(value: Any, where: str) -> Message:
    if not isinstance(value, dict):
        raise GatewayError(400, f"{where}: expected an object", param=where)
    role = ROLES.get(str(value.get("role")), str(value.get("role")))
    if role not in KNOWN_ROLES:
        raise GatewayError(
            400,
            f"{where}.role: got {role!r:.60}, expected one of {', '.join(KNOWN_ROLES)}",
            param=f"{where}.role",
        )
    message: Message = {"role": role, "content": _text(value.get("content"), f"{where}.content")}
    if isinstance(value.get("name"), str):
        message["name"] = encodable_text(value["name"])
    if role == "assistant" and value.get("tool_calls"):
        message["tool_calls"] = _calls(value["tool_calls"], f"{where}.tool_calls")
    if role == "tool" and isinstance(value.get("tool_call_id"), str):
        message["tool_call_id"] = value["tool_call_id"]
    if value.get("tools"):  # functions that a turn adds, where the chat template shows them
        message["tools"] = checked_tools(value["tools"], f"{where}.tools")
    return message


def checked_tools(value: Any, where: str = "tools") -> list[Any]:
    """Return the tools of a request, with what they may leave out.

    GatewayError for one of another shape than OpenAI's.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise GatewayError(400, f"{where}: expected a list", param=where)
    for index, each in enumerate(value):
        function = each.get("function") if isinstance(each, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise GatewayError(
                400,
                f'{where}[{index}]: expected {{"type": "function", "function": {{"name": ...}}}}}}',
                param=f"{where}[{index}]",
            )
    return [{**each, "function": _documented(each["function"])} for each in value]


def _documented(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function with all that chat templates read of one; its order of fields stays."""
    return {**function, **{k: v for k, v in _NO_DOC.items() if function.get(k) is None}}


def _text(value: Any, where: str) -> str:
    """Return content as one text; parts that are no text are refused."""
    if value is None:
        return ""
    if isinstance(value, str):
        return encodable_text(value)
    if not isinstance(value, list):
        raise GatewayError(400, f"{where}: expected a text or a list of parts", param=where)
    texts = []
    for index, part in enumerate(value):
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else part
        if not isinstance(text, str):
            raise GatewayError(
                400,
                f"{where}[{index}]: expected a part of text; this model reads nothing else",
                param=where,
            )
        texts.append(text)
    return encodable_text("".join(texts))


def _calls(value: Any, where: str) -> list[dict[str, str]]:
    if not isinstance(value, list):
        raise GatewayError(400, f"{where}: expected a list", param=where)
    found = []
    for index, each in enumerate(value):
        function = each.get("function") if isinstance(each, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise GatewayError(
                400,
                f'{where}[{index}]: expected {{"id", "function": {{"name", "arguments"}}}}',
                param=where,
            )
        arguments = function.get("arguments") or "{}"
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        found.append(
            {
                "id": str(each.get("id", "")),
                "name": encodable_text(function["name"]),
                "arguments": canonical_arguments(text),
            }
        )
    return found
