"""Chat messages as a request brings them: checked, in one form, with a key to know them again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2.exceptions import TemplateError

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.types import Call, FunctionDoc, Message
from fctncalling.data.unsafe_text import encodable_text
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.handlers.handler import Handler
from fctncalling.envs.handlers.registry import HANDLERS_BY_MARK, PROMPTING
from fctncalling.envs.prompting.prompts import system_prompt
from fctncalling.lab.gateway.gateway_error import GatewayError, invalid_field

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
        raise invalid_field("messages", "expected a list with at least one")
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
        raise invalid_field(where, "expected an object")
    role = ROLES.get(str(value.get("role")), str(value.get("role")))
    if role not in KNOWN_ROLES:
        expected = f"got {role!r:.60}, expected one of {', '.join(KNOWN_ROLES)}"
        raise invalid_field(f"{where}.role", expected)
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
        raise invalid_field(where, "expected a list")
    for index, each in enumerate(value):
        function = each.get("function") if isinstance(each, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            expected = 'expected {"type": "function", "function": {"name": ...}}}'
            raise invalid_field(f"{where}[{index}]", expected)
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
        raise invalid_field(where, "expected a text or a list of parts")
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
        raise invalid_field(where, "expected a list")
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
        name, call_id = encodable_text(function["name"]), str(each.get("id", ""))
        found.append({"id": call_id, "name": name, "arguments": canonical_arguments(text)})
    return found


_NAME = "fctnprobecall"
_PROBE = (
    {"role": "user", "content": "q"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "123456789", "type": "function", "function": {"name": _NAME, "arguments": {}}}
        ],
    },
    {"role": "tool", "name": _NAME, "tool_call_id": "123456789", "content": "r"},
)


class ContextCallForm:
    """Form of calls in context messages: the chat template's, or text where it shows none."""

    def __init__(self, template: ChatTemplate, handler: str = "auto", style: str = "bfcl") -> None:
        """handler: name of the form that calls are read in; style: of docs in instructions."""
        self._template = template
        self._style = style
        self.handler = get_handler(handler)
        self.writes_calls = _shows_calls(template)
        self._writer = _writer(template) if handler == "auto" else self.handler

    def shown(self, message: Message) -> Message:
        """Return a message as the template is given it."""
        calls = message.get("tool_calls")
        if not calls:
            return message
        if self.writes_calls:
            return {**message, "tool_calls": [_openai_call(call) for call in calls]}
        rest = {name: value for name, value in message.items() if name != "tool_calls"}
        return {**rest, "content": f"{message['content']}{self._written(calls)}"}

    def instructions(self, tools: Sequence[Any]) -> str:
        """Return the system text that stands for tools where the template takes none."""
        if self._template.takes_tools or not tools:
            return ""
        docs = [_doc(tool["function"]) for tool in tools]
        return system_prompt(docs, self._writer, many_turns=True, style=self._style)

    def _written(self, calls: Sequence[dict[str, str]]) -> str:
        try:
            return self._writer.render([_call(call) for call in calls])
        except (ValueError, TypeError):  # what the form cannot say
            return json.dumps([_openai_call(call)["function"] for call in calls])


def _shows_calls(template: ChatTemplate) -> bool:
    try:
        return _NAME in template.spell(template.render_prompt(_PROBE))
    except (TemplateError, TypeError, ValueError, KeyError, AttributeError, IndexError):
        return False


def _writer(template: ChatTemplate) -> Handler:
    """Return the handler whose mark stands in the template's source, else the prompting form."""
    source = str(template.source or getattr(template.tokenizer, "chat_template", "") or "")
    marks = (mark for mark in HANDLERS_BY_MARK if mark in source)
    return next((HANDLERS_BY_MARK[mark][0] for mark in marks), PROMPTING)


def _call(call: dict[str, str]) -> Call:
    arguments = json.loads(call["arguments"])
    return Call(call["name"], arguments if isinstance(arguments, dict) else {"value": arguments})


def _openai_call(call: dict[str, str]) -> dict[str, Any]:
    try:
        arguments: Any = json.loads(call["arguments"])
    except (ValueError, RecursionError):
        arguments = call["arguments"]
    function = {"name": call["name"], "arguments": arguments}
    return {"id": call["id"], "type": "function", "function": function}


def _doc(function: dict[str, Any]) -> FunctionDoc:
    parameters = function.get("parameters")
    return FunctionDoc(
        function["name"],
        str(function.get("description") or ""),
        parameters if isinstance(parameters, dict) else {"type": "dict", "properties": {}},
    )
