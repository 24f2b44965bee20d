"""Messages of a log as OpenAI writes them, whoever wrote them: each is known by its own keys."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fctncalling.conversations.calls_in_text import calls_in_text
from fctncalling.conversations.conversation import (
    Conversation,
    Unreadable,
    loaded,
    objects,
    read_call,
)
from fctncalling.data.types import Message
from fctncalling.specification.api import OwnApi, shown
from fctncalling.specification.tool_list import offered_functions

RawMessage = Mapping[str, Any]

_ROLES = {
    name: role
    for role, names in {
        "user": "user human",
        "assistant": "assistant gpt model ai chatgpt bot",
        "system": "system developer",
        "tool": "tool function observation ipython tool_response function_response",
        "call": "tool_call function_call",  # its text is the calls
    }.items()
    for name in names.split()
}
_CALLS: Mapping[str, Sequence[str]] = {  # part -> its keys of id, name, arguments
    "tool_use": ("id", "name", "input"),  # Anthropic
    "toolUse": ("toolUseId", "name", "input"),  # Bedrock
    "tool-call": ("toolCallId", "toolName", "input args"),  # AI SDK
    "functionCall": ("id", "name", "args"),  # Gemini
    "function_call": ("call_id id", "name", "arguments args"),  # Responses, Gemini in Python
}
_RESULTS: Mapping[str, Sequence[str]] = {  # part -> its keys of id, name, content
    "tool_result": ("tool_use_id", "name", "content"),
    "toolResult": ("toolUseId", "name", "content"),
    "tool-result": ("toolCallId", "toolName", "output result"),
    "functionResponse": ("id", "name", "response"),
    "function_response": ("id", "name", "response"),
    "function_call_output": ("call_id", "name", "output"),
}
_TEXTS = frozenset("text refusal input_text output_text".split())
_THOUGHTS = frozenset("thinking redacted_thinking reasoning reasoningContent summary".split())
_PARTS = _TEXTS | _THOUGHTS | _CALLS.keys() | _RESULTS.keys()
_RESPONSE = re.compile(r"<tool_response>\s*(.*?)\s*</tool_response>", re.DOTALL)
_TAGGED_TOOLS = re.compile(r"<tools>(.*?)</tools>", re.DOTALL)
_OPENING = re.compile(r"[\[{]")
_MAX_TRIED = 400  # places of a text at which a list of functions may begin


def read_messages(raw: Sequence[RawMessage], listed: OwnApi, known: OwnApi) -> Conversation:
    """Read messages up to the first unreadable one.

    listed: the functions on offer; known: those that are where none are listed.
    """
    thread = _Thread(listed, known)
    for each in raw:
        try:
            for message in _read(each):
                thread.append(message)
        except Unreadable as error:
            if thread.messages and thread.messages[-1]["role"] == "assistant":
                thread.messages.pop()  # what cannot be read may be a part of it
            return Conversation(thread.messages, thread.api, str(error))
    return Conversation(thread.messages, thread.api)


class _Thread:
    """Messages so far; those of the assistant in a row are one, results know their calls."""

    def __init__(self, listed: OwnApi, known: OwnApi) -> None:
        self.messages: list[Message] = []
        self.api = listed
        self._known = known
        self._waiting: list[tuple[str, dict[str, Any]]] = []  # calls without result, by logged id
        self._num_calls = 0

    def append(self, message: Message) -> None:
        role, text = message["role"], message["content"]
        if role == "system" and (listed := _functions_in_text(text)).functions:
            self.api = self.api if self.api.functions else listed
        elif role == "tool":
            for each in _RESPONSE.findall(text) or [text]:
                self.messages.append(self._answer({**message, "content": each}))
        elif role == "assistant":
            self._append_answer(message)
        elif text.strip():
            self.messages.append(message)

    def _append_answer(self, message: Message) -> None:
        text, calls = message["content"], message.pop("tool_calls")
        if not calls:
            found = calls_in_text(text, self.api if self.api.functions else self._known)
            calls = [read_call("", each.name, dict(each.arguments)) for each in found]
            text = "" if calls else text
        if not text and not calls:
            return
        if self.messages and self.messages[-1]["role"] == "assistant":
            before = self.messages.pop()
            text = "\n".join(filter(None, [before["content"], text]))
        else:
            before, self._waiting = {}, []
        for each in calls:
            self._waiting.append((each["id"], each))
            each["id"] = f"call_{self._num_calls}"  # logs use some ids twice
            self._num_calls += 1
        calls = [*before.get("tool_calls", ()), *calls]
        self.messages.append(
            {**message, "content": text, **({"tool_calls": calls} if calls else {})}
        )

    def _answer(self, result: Message) -> Message:
        """Return a result with the id and the name of its call: told by either, or next in turn."""
        told, name = result["tool_call_id"], result["name"]
        for place, (logged, call) in enumerate(self._waiting):
            own = call["function"]["name"]
            if told == logged if told and logged else name in ("", own):
                del self._waiting[place]
                return {**result, "tool_call_id": call["id"], "name": own}
        raise Unreadable("a result that answers no call")


def _functions_in_text(text: str) -> OwnApi:
    """Return the functions that a system message lists as JSON, or as Python in <tools>."""
    for tagged in _TAGGED_TOOLS.findall(text):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return offered_functions(ast.literal_eval(tagged.strip()))
    found, at = list[Any](), 0
    for _ in range(_MAX_TRIED):
        opening = _OPENING.search(text, at)
        if opening is None:
            break
        try:
            value, at = json.JSONDecoder().raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            at = opening.end()
            continue
        if re.search(r'"(?:description|parameters)"\s*:', text[opening.start() : at]):
            found += value if isinstance(value, list) else [value]
    return offered_functions(found)


def role_of(message: RawMessage) -> str:
    """Return the role of a message as OpenAI names it, "call" for calls alone, "" for none."""
    name = _with_role(message).get("role")
    return _ROLES.get(name.lower().replace("-", "_"), "") if isinstance(name, str) else ""


def _with_role(message: RawMessage) -> RawMessage:
    """Return a message with `role` and `content`, whatever its own keys of them are."""
    kind = message.get("type")
    if "parts" in message:  # Gemini
        return {**message, "role": message.get("role") or "user", "content": message["parts"]}
    if "from" in message:  # ShareGPT
        return {**message, "role": message["from"], "content": message.get("value")}
    if "role" in message:
        return message
    if isinstance(kind, str) and kind in _PARTS:  # an item of Responses
        return {"role": "tool" if kind in _RESULTS else "assistant", "content": [message]}
    fields = message.get("kwargs", message.get("data", message))
    if not isinstance(fields, dict) or (fields is message and "content" not in message):
        return {}
    path = message.get("id") if "lc" in message else None  # LangChain
    kind = path[-1] if isinstance(path, list) and path else kind
    name = kind.removesuffix("Chunk").removesuffix("Message") if isinstance(kind, str) else None
    more = fields.get("additional_kwargs")
    more = more if isinstance(more, dict) else {}
    calls = fields.get("tool_calls") or more.get("tool_calls")
    return {**more, **fields, "role": name, "tool_calls": calls}


def _read(raw: RawMessage) -> Iterator[Message]:
    """Yield the messages of OpenAI's form that one of a log is, results first."""
    if not (role := role_of(raw)):
        told = next((raw[key] for key in ("role", "from", "type") if key in raw), None)
        raise Unreadable(f"a message whose role is {shown(told)}")
    raw = _with_role(raw)
    text, calls, results = _content(raw.get("content"))
    yield from results
    if role in ("assistant", "call"):
        if role == "call":
            text, calls = "", _calls_of_text(text)
        weight = {"weight": raw["weight"]} if "weight" in raw else {}
        calls = _listed_calls(raw) or calls
        yield {"role": "assistant", "content": text, "tool_calls": calls, **weight}
    elif role == "tool" and not results:
        yield _result(raw.get("tool_call_id"), raw.get("name"), text)
    elif role == "user" and raw.get("tool_calls"):
        raise Unreadable("a user that calls functions")
    elif role != "tool":
        yield {"role": role, "content": text}


def _result(call_id: Any, name: Any, content: Any) -> Message:
    call_id, name = (each if isinstance(each, str) else "" for each in (call_id, name))
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": _text(content)}


def _text(value: Any) -> str:
    """Return a result as text: of parts their texts, of other values their JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    parts = objects(value)
    if parts and all(isinstance(each.get("text"), str) for each in parts):
        return "\n".join(each["text"] for each in parts)
    return json.dumps(value, ensure_ascii=False)


class _Content(NamedTuple):
    """Content of a message: its text, calls and results."""

    text: str
    calls: list[dict[str, Any]]
    results: list[Message]


def _content(content: Any) -> _Content:
    """Return what a content says, a text or a list of parts; thoughts are left out."""
    texts, calls, results = list[str](), list[dict[str, Any]](), list[Message]()
    for part in content if isinstance(content, list) else [content or ""]:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = _kind(part)
        body = part[kind] if isinstance(part.get(kind), dict) else part
        if kind in _TEXTS and not part.get("thought"):
            texts.append(str(part.get("text") or part.get("refusal") or ""))
        elif kind in _CALLS:
            calls.append(read_call(*_fields(body, _CALLS[kind])))
        elif kind in _RESULTS:
            results.append(_result(*_fields(body, _RESULTS[kind])))
        elif kind not in _THOUGHTS | _TEXTS:
            raise Unreadable(f"a message with a part of type {shown(kind)}")
    return _Content("\n".join(texts), calls, results)


def _kind(part: Any) -> str:
    """Return the type of a content part, stated or inferred from its key."""
    if not isinstance(part, dict) or not part:
        raise Unreadable(f"a message with a part {shown(part)}")
    kind = part.get("type", next((key for key in part if key in _PARTS), next(iter(part))))
    return kind if isinstance(kind, str) else ""


def _fields(body: RawMessage, keys: Sequence[str]) -> list[Any]:
    """Return the field of each key, resolving aliases."""
    return [next((body[key] for key in each.split() if key in body), None) for each in keys]


def _listed_calls(message: RawMessage) -> list[dict[str, Any]]:
    """Return the calls of `tool_calls` and `function_call`, OpenAI's and LangChain's."""
    listed = message.get("tool_calls") or []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise Unreadable(f"tool_calls: {shown(listed)}: expected a list of objects")
    if not listed and message.get("function_call"):
        listed = [{"function": message["function_call"]}]
    found = []
    for each in listed:
        function = each.get("function", each)
        if not isinstance(function, dict):
            raise Unreadable(
                f"function: {shown(function)}: expected an object with name, arguments"
            )
        arguments = function.get("arguments", function.get("args"))
        found.append(read_call(each.get("id"), function.get("name"), arguments))
    return found


def _calls_of_text(text: str) -> list[dict[str, Any]]:
    """Return the calls of a message that is nothing else: an object, a list, or another form."""
    value = loaded(text)
    if calls := objects(value if isinstance(value, list) else [value]):
        return _listed_calls({"tool_calls": calls})
    if not (found := calls_in_text(text, offered_functions())):
        raise Unreadable("calls as text that cannot be read")
    return [read_call("", each.name, dict(each.arguments)) for each in found]
