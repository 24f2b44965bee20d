"""Whether the gateway's prompt equals the chat template's rendering of the same messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.message_renderer import TemplateRefusal
from fctncalling.lab.gateway.action_forest import ActionForest
from fctncalling.lab.gateway.completion_request import GatewayError, chat_request
from fctncalling.lab.gateway.rendering import AnsweredMessages, ContextCallForm, MessageRendering

_TYPES = {"town": "string", "days": "integer", "also": "array", "exact": "boolean"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "d",
            "parameters": {
                "type": "object",
                "properties": {key: {"type": kind} for key, kind in _TYPES.items()},
                "required": ["town"],
            },
        },
    }
    for name in ("look_up", "other")
]
_ARGUMENTS = {"town": "Bern", "days": 3, "also": ["b", "a"], "exact": True}


class PromptComparison(NamedTuple):
    """Conversation under a template: the gateway's prompt and the template's."""

    kind: str
    gateway: str
    template: str


def compare_prompts(template: ChatTemplate, ids: tuple[str, str]) -> Iterator[PromptComparison]:
    """Yield both prompts of each conversation that the template renders completely.

    ids: of the two calls, as the model's servers make them.
    """
    form = ContextCallForm(template)
    for kind, messages in _conversations(*ids).items():
        try:
            whole = _rendered(template, messages)
        except Exception:  # templates raise what they like: it renders no such conversation
            continue
        if any(word not in whole for word in ("Bern", "days")) or whole.count("look_up") < 2:
            continue  # without tools or calls: the gateway writes them as text
        request = chat_request({"messages": messages, "tools": TOOLS})
        try:
            parts = (template, form, ActionForest(), AnsweredMessages())
            rendered = MessageRendering(request.messages, request.tools, 0, *parts).prompt()
            yield PromptComparison(kind, template.spell(rendered.ids), whole)
        except (GatewayError, TemplateRefusal) as error:
            yield PromptComparison(kind, f"{type(error).__name__}: {error}", whole)


def _conversations(first: str, second: str) -> dict[str, list[dict[str, Any]]]:
    question = {"role": "user", "content": "q"}
    call, other = _call(first, "look_up", _ARGUMENTS), _call(second, "other", {"town": "a"})
    message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": first, "content": "r"}
    one = [question, message, result]
    return {
        "one call": one,
        "one more turn": [
            *({"role": "system", "content": "s"}, *one),
            *({"role": "assistant", "content": "It rains."}, {"role": "user", "content": "more"}),
        ],
        "two calls": [
            *(question, {**message, "tool_calls": [call, other]}, result),
            {"role": "tool", "tool_call_id": second, "content": "r2"},
        ],
        "named result": [question, message, {**result, "name": "look_up"}],
        "thought": [question, {**message, "content": "", "reasoning_content": "hm"}, result],
    }


def _call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def _rendered(template: ChatTemplate, messages: list[dict[str, Any]]) -> str:
    copies = json.loads(json.dumps(messages))
    for message in copies:
        message["content"] = message["content"] or ""
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    text: str = template.tokenizer.apply_chat_template(
        copies, tools=TOOLS, tokenize=False, add_generation_prompt=True
    )
    return text
