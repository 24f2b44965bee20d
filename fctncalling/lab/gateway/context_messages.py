"""ContextCallForm: how assistant messages with calls that were not sampled here are shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jinja2.exceptions import TemplateError

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.types import Call, FunctionDoc, Message
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.handlers.handler import Handler
from fctncalling.envs.handlers.registry import HANDLERS_BY_MARK, PROMPTING
from fctncalling.envs.prompting.prompts import system_prompt

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
