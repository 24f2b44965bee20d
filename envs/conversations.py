"""Conversations: the environment's output as chat messages, a model's message as an action.

One class for each form of messages; and a transcript, a conversation as text for a terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fctncalling.checkers.python_values import short_repr
from fctncalling.data.types import Call, FunctionDoc, Message, Task, Verdict, tool_call
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.prompting.prompts import MORE_FUNCTIONS


def task_for_form(task: Task, form: str) -> Task:
    """Adapt a task to an answer form: tool calls need function names without dots.

    Interfaces for tool calls forbid dots, so BFCL sends underscores and expects them back.
    """
    if form not in ("tool_call", "tools_text") or task.executes_calls:
        return task
    truth = task.ground_truth
    if truth is not None:
        truth = [
            {_dots_to_underscores(name): accepted for name, accepted in call.items()}
            for call in truth
        ]
    docs = [
        FunctionDoc(_dots_to_underscores(doc.name), doc.description, doc.parameters, doc.response)
        for doc in task.functions
    ]
    return replace(task, functions=docs, ground_truth=truth)


def _dots_to_underscores(name: str) -> str:
    return name.replace(".", "_")


_MARKED = re.compile(
    r"(.*?)(?:<tool_call>|<\|python_tag\|>|<\|python_start\|>|\[TOOL_CALLS\]|<TOOLCALL>|<functions>)",
    re.DOTALL,
)
"""Text before the mark that opens a message's calls."""


class PromptedConversation:
    """Conversation in BFCL's prompting form: docs in the system message, results from the user."""

    sends_tools = False  # schemas are in the system message

    def __init__(self) -> None:
        self.messages = list[Message]()

    def observe(self, observation: str, info: Mapping[str, Any]) -> None:
        """Append the new messages that `reset` or `step` returned."""
        new = [{"role": m["role"], "content": m.get("content") or ""} for m in info["messages"]]
        if not self.messages:
            task_text = new.pop(0)["content"] if new and new[0]["role"] == "system" else ""
            system = "\n\n".join(filter(None, [info["instructions"], task_text]))
            self.messages.append({"role": "system", "content": system})
        elif any(message["role"] == "tool" for message in new):
            new = [{"role": "user", "content": observation}]
        self.messages += new

    def to_action(self, message: Mapping[str, Any]) -> str:
        """Append a model's message and return its text, the action."""
        text = message_text(message)
        self.messages.append({"role": "assistant", "content": text})
        return text

    def end(self) -> None:
        """Return: the model's last message is in the conversation already."""


class ToolCallConversation:
    """Conversation in OpenAI's tool-call form: a tool message for each result."""

    sends_tools = True

    def __init__(self) -> None:
        self.messages = list[Message]()
        # The model's last message, until it is known whether its calls were run.
        self._pending: Mapping[str, Any] | None = None

    def observe(self, observation: str, info: Mapping[str, Any]) -> None:
        """Append the model's last message, and the new ones that `reset` or `step` returned."""
        messages = info["messages"]
        if not self.messages and any(message.get("tool_calls") for message in messages):
            self.messages += map(_opening_message, messages)
            return
        results = [message for message in messages if message["role"] == "tool"]
        if self._pending is not None:
            self._add_answered(self._openai_tool_calls(self._pending, info), results, observation)
            self._pending = None
        for message in messages:
            if message["role"] != "tool":
                content = MORE_FUNCTIONS if message.get("tools") else message.get("content") or ""
                self.messages.append({"role": message["role"], "content": content})

    def to_action(self, message: Mapping[str, Any]) -> str:
        """Convert a model's message to an action: its calls as JSON, else its text."""
        self._pending = message = replace_malformed_message(message)
        calls = tool_call_fields(message)
        if calls:
            return json.dumps([{call["name"]: call["arguments"]} for call in calls])
        text = message_text(message)
        return json.dumps(text) if _decode_with("tool_calls", text) else text  # no calls: only chat

    def _openai_tool_calls(
        self, message: Mapping[str, Any], info: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the calls of a model's message in OpenAI's form."""
        return list(message.get("tool_calls") or [])

    def _text_outside_calls(self, content: str) -> str:
        """Return the text of a message outside its calls."""
        return content

    def end(self) -> None:
        """End the conversation: append the model's last message if it was not answered."""
        if self._pending is not None:
            self.messages.append({"role": "assistant", **self._pending})
            self._pending = None

    def _add_answered(
        self, calls: list[dict[str, Any]], results: Sequence[Message], observation: str
    ) -> None:
        """Append the model's message with its results, in a form that interfaces accept.

        Calls that were not run have no results, and interfaces reject calls without results.
        """
        assert self._pending is not None
        content = message_text(self._pending)
        if calls and len(calls) == len(results):
            text = self._text_outside_calls(content)
            self.messages.append({"role": "assistant", "content": text, "tool_calls": calls})
            for call, result in zip(calls, results, strict=True):
                fields = {"tool_call_id": str(call.get("id", "")), "content": result["content"]}
                self.messages.append({"role": "tool", **fields})
            return
        self.messages.append({"role": "assistant", "content": content or json.dumps(calls)})
        if results:
            self.messages.append({"role": "user", "content": observation})


class UnparsedToolCallConversation(ToolCallConversation):
    """Conversation with a server that does not parse tool calls: our handler reads its text.

    The server gets the tools' schemas. In the conversation the calls appear as `tool_calls`, so
    that the server's chat template writes them as the model does.
    """

    def to_action(self, message: Mapping[str, Any]) -> str:
        """Convert a model's message to an action: its text."""
        self._pending = message = replace_malformed_message(message)
        calls = tool_call_fields(message)  # of a server that parses them after all
        return "\n".join(_hermes(call) for call in calls) or _on_lines(message_text(message))

    def _openai_tool_calls(
        self, message: Mapping[str, Any], info: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        if message.get("tool_calls"):
            return super()._openai_tool_calls(message, info)
        calls: Sequence[Call] = info["calls"]
        return [
            tool_call(f"call_{len(self.messages)}_{number}", call.name, _arguments(call))
            for number, call in enumerate(calls)
        ]

    def _text_outside_calls(self, content: str) -> str:
        if self._pending is not None and self._pending.get("tool_calls"):
            return content
        marked = _MARKED.match(content)
        return marked[1].strip() if marked else ""


Conversation = PromptedConversation | ToolCallConversation
CONVERSATIONS: dict[str, type[Conversation]] = {
    "prompting": PromptedConversation,
    "tool_call": ToolCallConversation,
    "tools_text": UnparsedToolCallConversation,
}
"""Form of messages -> its conversation."""


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message; some interfaces send it in parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _opening_message(message: Mapping[str, Any]) -> Message:
    """Convert a message of a task's history to OpenAI's form: calls with text arguments."""
    fields = {key: message[key] for key in ("role", "content", "tool_call_id") if key in message}
    calls = [
        tool_call(call["id"], call["function"]["name"], json.dumps(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    ]
    return {**fields, "content": "", "tool_calls": calls} if calls else fields


def replace_malformed_message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace a message with malformed `tool_calls` by a text; return others unchanged.

    The text names OpenAI's shape, and no handler reads it as calls.
    """
    try:
        tool_call_fields(message)
    except ValueError as error:
        return {"role": "assistant", "content": f"[{{malformed {error}"}
    return message


def tool_call_fields(message: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return name and arguments (JSON text) of each tool call of a message.

    Raises ValueError if they have not OpenAI's shape.
    """
    listed = message.get("tool_calls") or []
    if not isinstance(listed, list | tuple):
        raise _unlike("tool_calls", "a list", listed)
    return [_named_tool_call(call, f"tool_calls[{index}]") for index, call in enumerate(listed)]


def _named_tool_call(call: Any, where: str) -> dict[str, str]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise _unlike(where, '{"function": {"name", "arguments"}}', call)
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str):
        raise _unlike(f"{where}.function.name", "a string", name)
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    except (TypeError, ValueError, RecursionError):
        raise _unlike(f"{where}.function.arguments", "JSON", arguments) from None
    return {"name": name, "arguments": text or "{}"}


def _unlike(where: str, expected: str, value: Any) -> ValueError:
    text = short_repr(value)[:100]
    return ValueError(f"{where}: expected {expected}, found {type(value).__name__} {text}")


def reads_as_calls(text: str, tools: Sequence[Any]) -> bool:
    """Whether a text reads as calls of the offered functions."""
    calls = _decode_with("auto", _on_lines(text))
    offered = {tool["function"]["name"] for tool in tools}
    return bool(calls) and all(call.name in offered for call in calls)


def _arguments(call: Call) -> str:
    try:
        return json.dumps(dict(call.arguments), default=str)
    except (TypeError, ValueError, RecursionError):  # what JSON cannot say stays out of the history
        return "{}"


def _hermes(call: Mapping[str, str]) -> str:
    try:
        arguments = json.loads(call["arguments"])
    except (ValueError, RecursionError):
        arguments = call["arguments"]
    text = json.dumps({"name": call["name"], "arguments": arguments})
    return f"<tool_call>\n{text}\n</tool_call>"


def _on_lines(text: str) -> str:
    """Put the <tool_call> marks of a text on separate lines, as the handler needs them."""
    return re.sub(r"(<tool_call>)\s*|\s*(</tool_call>)", r"\1\n\2", text)


def _decode_with(handler: str, text: str) -> Sequence[Call]:
    try:
        return get_handler(handler).decode(text)
    except Exception:  # a decoder's crash on a model's text is no call, as the environment has it
        return ()


_HEADS = {"system": "system", "user": "user", "assistant": "model", "tool": "tool"}


def escape_unprintable(text: str) -> str:
    """Escape characters that control a terminal or have no encoding."""
    return "".join(
        char if char == "\n" or char.isprintable() else repr(char)[1:-1] for char in text
    )


def transcript(messages: Iterable[Mapping[str, Any]], verdict: Verdict | None = None) -> str:
    """Format messages as a readable transcript, with the verdict as its last line.

    A message with a "speaker" is headed by that name. Every line of a message begins with a bar, so
    that no message can imitate a head or the verdict.
    """
    blocks = []
    for message in messages:
        head = _HEADS.get(str(message.get("role")), "other")
        head = escape_unprintable(str(message.get("speaker", head)))
        thought = str(message.get("reasoning_content") or "")
        with_thought = f"(thought) {thought}\n{message.get('content') or ''}" if thought else None
        content = escape_unprintable(with_thought or str(message.get("content") or ""))
        if head == "tool":
            content = f"{escape_unprintable(str(message.get('name', '')))}\n= {content}"
        blocks.append("\n".join([f"{head}:", *(f"  | {line}" for line in content.split("\n"))]))
    if verdict is not None:
        blocks.append(
            "verdict: valid"
            if verdict.valid
            else f"verdict: {escape_unprintable(str(verdict.error_type))}"
        )
    return "\n".join(blocks)


def check_render_mode(mode: str | None, modes: Sequence[str]) -> None:
    """Raise ValueError for a render mode that the environment does not have."""
    if mode not in (None, *modes):
        raise ValueError(f"render_mode={mode!r}: expected one of {list(modes)}, or None.")
