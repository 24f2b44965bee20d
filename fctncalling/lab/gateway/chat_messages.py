"""Chat messages as a request brings them: checked, in one form, with a key to know them again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.call_form import find_call_form
from fctncalling.data.types import Call, FunctionDoc, Message, tool_call
from fctncalling.data.unsafe_text import encodable_text
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.prompting.prompts import system_prompt
from fctncalling.lab.gateway.gateway_error import GatewayError, invalid_field

ROLES = {"developer": "system", "function": "tool"}
"""Roles of newer and older interfaces -> the role that chat templates know."""
_NO_DOC: dict[str, Any] = {"description": "", "parameters": {"type": "object", "properties": {}}}
KNOWN_ROLES = ("system", "user", "assistant", "tool")


def checked_messages(value: Any) -> list[Message]:
    """Return the messages of a request in one form; GatewayError names the first that is none.

    Content is a text, calls are {"id", "name", "arguments"} with arguments as the text that came.
    """
    if not isinstance(value, list) or not value:
        raise invalid_field("messages", "expected a list with at least one")
    return [_checked(each, f"messages[{index}]") for index, each in enumerate(value)]


def message_key(message: Mapping[str, Any]) -> str:
    """Return what tells an assistant message from others: its text and calls, without their ids."""
    listed = message.get("tool_calls", ())
    calls = [[call["name"], canonical_arguments(call["arguments"])] for call in listed]
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
    thought = value.get("reasoning_content", value.get("reasoning"))
    if role == "assistant" and isinstance(thought, str) and thought:
        message["reasoning_content"] = encodable_text(thought)
    if role == "assistant" and value.get("tool_calls"):
        message["tool_calls"] = _calls(value["tool_calls"], f"{where}.tool_calls")
    if role == "tool" and isinstance(value.get("tool_call_id"), str):
        message["tool_call_id"] = encodable_text(value["tool_call_id"])
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
        name, call_id = encodable_text(function["name"]), encodable_text(str(each.get("id", "")))
        found.append({"id": call_id, "name": name, "arguments": text})
    return found


class ContextCallForm:
    """Form of calls in context messages: the chat template's, or text where it shows none."""

    def __init__(self, template: ChatTemplate, handler: str = "auto", style: str = "bfcl") -> None:
        """handler: name of the form that calls are read in; style: of docs in instructions."""
        self._template = template
        self._style = style
        self.call_form = find_call_form(template)
        own = self.call_form.handler_name if handler == "auto" else handler
        self.handler = get_handler(own)
        self.writes_calls = template.renderer.shows_calls

    def shown(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages as the template is given them.

        A result gets the name of the function whose call it answers where the template fails on
        one without.
        """
        names = {
            call["id"]: call["name"] for each in messages for call in each.get("tool_calls", ())
        }
        shown = []
        for message in messages:
            answered = names.get(message.get("tool_call_id", ""))
            if answered is not None and self._template.renderer.needs_names:
                message = {"name": answered, **message}
            shown.append(self._with_calls(message) if message.get("tool_calls") else message)
        return shown

    def _with_calls(self, message: Message) -> Message:
        calls = message["tool_calls"]
        if self.writes_calls:
            return {**message, "tool_calls": [_openai_call(call) for call in calls]}
        rest = {name: value for name, value in message.items() if name != "tool_calls"}
        return {**rest, "content": f"{message['content']}{self._written(calls)}"}

    def instructions(self, tools: Sequence[Any]) -> str:
        """Return the system text that stands for tools where the template takes none."""
        if self._template.takes_tools or not tools:
            return ""
        docs = function_docs(tools)
        return system_prompt(docs, self.handler, many_turns=True, style=self._style)

    def _written(self, calls: Sequence[dict[str, str]]) -> str:
        try:
            return self.handler.render([_call(call) for call in calls])
        except (ValueError, TypeError):  # what the form cannot say
            return json.dumps([_openai_call(call)["function"] for call in calls])


def _call(call: dict[str, str]) -> Call:
    arguments = json.loads(call["arguments"])
    return Call(call["name"], arguments if isinstance(arguments, dict) else {"value": arguments})


def _openai_call(call: dict[str, str]) -> dict[str, Any]:
    try:
        arguments: Any = json.loads(call["arguments"])
    except (ValueError, RecursionError):
        arguments = call["arguments"]
    return tool_call(call["id"], call["name"], arguments)


def function_docs(tools: Sequence[Any]) -> list[FunctionDoc]:
    """Return the docs of the functions that tools are, in OpenAI's form."""
    functions = (tool["function"] for tool in tools)
    return [
        FunctionDoc(
            each["name"],
            str(each.get("description") or ""),
            parameters
            if isinstance(parameters := each.get("parameters"), dict)
            else {"type": "dict", "properties": {}},
        )
        for each in functions
    ]
