"""Message forms: how OpenAI, Anthropic, Gemini, LangChain and others write a list of messages.

Each form is a row: its name, a predicate on the whole list, a reader of one message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.conversations.calls_in_text import calls_in_text
from fctncalling.conversations.conversation import (
    Conversation,
    Unreadable,
    loaded,
    objects,
    read_call,
    shown,
)
from fctncalling.conversations.offered_functions import functions_in_text
from fctncalling.data.types import FunctionDoc, Message

RawMessage = Mapping[str, Any]


class MessageForm(NamedTuple):
    """Form of messages: whether a list has it, and how one message of it is read."""

    name: str
    holds: Callable[[Sequence[RawMessage]], bool]
    read: Callable[[RawMessage], Iterator[Message]]


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
_CALL_PARTS = {  # type -> form, keys of id, name, arguments
    "tool_use": ("anthropic", "id", "name", "input"),
    "toolUse": ("bedrock", "toolUseId", "name", "input"),
    "tool-call": ("ai sdk", "toolCallId", "toolName", ("input", "args")),
}
_RESULT_PARTS = {  # type -> form, keys of id, content
    "tool_result": ("anthropic", "tool_use_id", "content"),
    "toolResult": ("bedrock", "toolUseId", "content"),
    "tool-result": ("ai sdk", "toolCallId", ("output", "result")),
}
_TEXT_PARTS = {"text": "", "refusal": "", "input_text": "responses", "output_text": "responses"}
_THOUGHTS = frozenset("thinking redacted_thinking reasoning reasoningContent summary".split())
_FORM_OF_PART = {
    **{kind: row[0] for kind, row in (_CALL_PARTS | _RESULT_PARTS).items()},
    **{kind: form for kind, form in _TEXT_PARTS.items() if form},
}
_ITEMS = frozenset("function_call function_call_output reasoning".split())
_LANGCHAIN = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_LANGCHAIN |= {"function": "tool", "developer": "system"}
_RESPONSE = re.compile(r"<tool_response>\s*(.*?)\s*</tool_response>", re.DOTALL)


def read_messages(
    raw: Sequence[RawMessage], listed: Sequence[FunctionDoc], known: Sequence[FunctionDoc] = ()
) -> Conversation:
    """Read messages of any form; what follows one that cannot be read is left out.

    listed: the functions on offer; known: those that are where none are listed. Raises Unreadable
    where the form of the messages is none of the table's, or not one alone.
    """
    forms = [each for each in MESSAGE_FORMS if each.holds(raw)]
    if len(forms) != 1:
        names = " and ".join(each.name for each in forms)
        raise Unreadable(f"messages that read as {names}" if forms else "messages of no known form")
    thread = _Thread(list(listed), known)
    for each in raw:
        try:
            for message in forms[0].read(each):
                thread.append(message)
        except Unreadable as error:
            if thread.messages and thread.messages[-1]["role"] == "assistant":
                thread.messages.pop()  # what cannot be read may be a part of it
            return Conversation(thread.messages, thread.functions, str(error))
    return Conversation(thread.messages, thread.functions)


class _Thread:
    """Messages so far; those of the assistant in a row are one, results know their calls."""

    def __init__(self, functions: list[FunctionDoc], known: Sequence[FunctionDoc]) -> None:
        self.messages: list[Message] = []
        self.functions = functions
        self._known = known
        self._waiting: list[tuple[str, dict[str, Any]]] = []  # calls without result, by logged id
        self._num_calls = 0

    def append(self, message: Message) -> None:
        role, text = message["role"], message["content"]
        if role == "system" and (listed := functions_in_text(text)):
            self.functions = self.functions or listed
        elif role == "tool":
            for each in _RESPONSE.findall(text) or [text]:
                self.messages.append(self._answer({**message, "content": each}))
        elif role == "assistant":
            self._append_answer(message)
        elif text.strip():
            self.messages.append(message)

    def _append_answer(self, message: Message) -> None:
        functions, text = self.functions or self._known, message["content"]
        if not message["tool_calls"] and (calls := calls_in_text(text, functions)):
            named = [read_call("", each.name, dict(each.arguments)) for each in calls]
            text, message = "", {**message, "content": "", "tool_calls": named}
        before = self.messages[-1] if self.messages else {"role": ""}
        if before["role"] == "assistant":
            self.messages.pop()
            text = "\n".join(filter(None, [before["content"], message["content"]]))
            calls = [*before.get("tool_calls", ()), *message["tool_calls"]]
        else:
            self._waiting, calls = [], message["tool_calls"]
        for each in message["tool_calls"]:
            self._waiting.append((each["id"], each))
            each["id"] = f"call_{self._num_calls}"  # logs use some ids twice
            self._num_calls += 1
        message = {**message, "content": text, "tool_calls": calls}
        if not calls:
            del message["tool_calls"]
        if text or calls:
            self.messages.append(message)

    def _answer(self, result: Message) -> Message:
        """Return a result with the id and the name of its call: told by either, or next in turn."""
        told, name = result["tool_call_id"], result["name"]
        for place, (logged, call) in enumerate(self._waiting):
            own = call["function"]["name"]
            if told == logged if told and logged else name in ("", own):
                del self._waiting[place]
                return {**result, "tool_call_id": call["id"], "name": own}
        raise Unreadable("a result that answers no call")


def _answered(text: str, calls: Sequence[dict[str, Any]] = (), **more: Any) -> Message:
    return {"role": "assistant", "content": text, "tool_calls": list(calls), **more}


def _result(call_id: Any, name: Any, content: Any) -> Message:
    texts = (call_id if isinstance(call_id, str) else "", name if isinstance(name, str) else "")
    return {"role": "tool", "tool_call_id": texts[0], "name": texts[1], "content": _text(content)}


def _text(value: Any) -> str:
    """Return a result as text: of parts their texts, of other values their JSON."""
    if isinstance(value, str):
        return value
    parts = objects(value)
    if parts and all(isinstance(each.get("text"), str) for each in parts):
        return "\n".join(each["text"] for each in parts)
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def is_of_assistant(message: RawMessage) -> bool:
    """Whether a message of any form is the assistant's."""
    named = [message.get(key) for key in ("role", "from", "type")]
    roles = [_ROLES.get(each.lower()) for each in named if isinstance(each, str)]
    return "assistant" in roles or "call" in roles


def _role(name: Any) -> str:
    role = _ROLES.get(name.lower().replace("-", "_")) if isinstance(name, str) else None
    if role is None:
        raise Unreadable(f"a message whose role is {shown(name)}")
    return role


class _Content(NamedTuple):
    """Content of a message: its text, calls and results."""

    text: str
    calls: list[dict[str, Any]]
    results: list[Message]


def _content(content: Any) -> _Content:
    """Return what a content says, a text or a list of parts; thoughts are left out."""
    if content is None or isinstance(content, str):
        return _Content(content or "", [], [])
    texts, calls, results = list[str](), list[dict[str, Any]](), list[Message]()
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = _kind(part)
        body = part.get(kind) if isinstance(part.get(kind), dict) else part  # Bedrock's
        if kind in _TEXT_PARTS:
            texts.append(str(part.get("text") or part.get("refusal") or ""))
        elif kind in _CALL_PARTS:
            calls.append(read_call(*(_field(body, key) for key in _CALL_PARTS[kind][1:])))
        elif kind in _RESULT_PARTS:
            told, said = (_field(body, key) for key in _RESULT_PARTS[kind][1:])
            results.append(_result(told, "", said))
        elif kind not in _THOUGHTS:
            raise Unreadable(f"a message with a part of type {shown(kind)}")
    return _Content("\n".join(texts), calls, results)


def _kind(part: Any) -> str:
    """Return the type of a part, or its first key, where it has one."""
    if not isinstance(part, dict) or not part:
        raise Unreadable(f"a message with a part {shown(part)}")
    kind = part.get("type", next(iter(part)))
    return kind if isinstance(kind, str) else ""


def _field(body: RawMessage, keys: Sequence[str]) -> Any:
    return next(
        (body[key] for key in ([keys] if isinstance(keys, str) else keys) if key in body), None
    )


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


def _by_role(message: RawMessage) -> Iterator[Message]:
    """Read a message with a role: OpenAI's, Anthropic's, Bedrock's, the AI SDK's."""
    role = _role(message["role"])
    text, calls, results = _content(message.get("content"))
    yield from results
    if role == "assistant":
        weight = {"weight": message["weight"]} if "weight" in message else {}
        yield _answered(text, _listed_calls(message) or calls, **weight)
    elif role == "call":
        yield _answered("", _calls_of_text(text))
    elif role == "tool" and not results:
        yield _result(message.get("tool_call_id"), message.get("name"), text)
    elif role == "user" and message.get("tool_calls"):
        raise Unreadable("a user that calls functions")
    elif role != "tool":
        yield {"role": role, "content": text}


def _calls_of_text(text: str) -> list[dict[str, Any]]:
    """Return the calls of a message that is nothing else: an object, a list, or another form."""
    value = loaded(text)
    if calls := objects(value if isinstance(value, list) else [value]):
        return _listed_calls({"tool_calls": calls})
    return [read_call("", each.name, dict(each.arguments)) for each in calls_in_text(text, ())]


def _item(item: RawMessage) -> Iterator[Message]:
    """Read an item of OpenAI's Responses."""
    kind = item.get("type", "message")
    if kind == "function_call":
        call_id = item.get("call_id", item.get("id"))
        yield _answered("", [read_call(call_id, item.get("name"), item.get("arguments"))])
    elif kind == "function_call_output":
        yield _result(item.get("call_id"), "", item.get("output"))
    elif kind == "message":
        yield from _by_role(item)
    elif kind != "reasoning":
        raise Unreadable(f"an item of type {shown(kind)}")


def _gemini(message: RawMessage) -> Iterator[Message]:
    """Read one of Gemini's contents."""
    role, texts, calls = _role(message.get("role") or "user"), list[str](), list[dict[str, Any]]()
    for part in objects(message["parts"]):
        call, answer = (
            part.get(camel, part.get(snake))
            for camel, snake in (
                ("functionCall", "function_call"),
                ("functionResponse", "function_response"),
            )
        )
        if isinstance(call, dict):
            calls.append(read_call(call.get("id"), call.get("name"), call.get("args")))
        elif isinstance(answer, dict):
            yield _result(answer.get("id"), answer.get("name"), answer.get("response"))
        elif not isinstance(part.get("text"), str):
            raise Unreadable(f"a message with a part of {shown(list(part))}")
        elif not part.get("thought"):
            texts.append(part["text"])
    if role == "assistant":
        yield _answered("\n".join(texts), calls)
    elif texts:
        yield {"role": role, "content": "\n".join(texts)}


def _share_gpt(message: RawMessage) -> Iterator[Message]:
    return _by_role({"role": message["from"], "content": message["value"]})


def _langchain(message: RawMessage) -> Iterator[Message]:
    """Read a message of LangChain: dumped, as a dict, or serialised by its constructor."""
    fields = message.get("kwargs", message.get("data", message))
    if not isinstance(fields, dict):
        raise Unreadable("a message of LangChain without fields")
    more = fields.get("additional_kwargs")
    fields = {**(more if isinstance(more, dict) else {}), **fields}
    if not fields.get("tool_calls") and isinstance(more, dict):
        fields["tool_calls"] = more.get("tool_calls")
    yield from _by_role({**fields, "role": _LANGCHAIN[_langchain_type(message)]})


def _langchain_type(message: RawMessage) -> str:
    path = message.get("id") if "lc" in message else None
    name = path[-1] if isinstance(path, list) and path else message.get("type")
    name = name if isinstance(name, str) else ""
    return name.removesuffix("Chunk").removesuffix("Message").lower()


def _is_langchain(message: RawMessage) -> bool:
    is_dump = any(key in message for key in ("kwargs", "data", "content"))
    return is_dump and _langchain_type(message) in _LANGCHAIN


def _forms_of_parts(messages: Sequence[RawMessage]) -> set[str]:
    """Return the forms that the parts of contents belong to."""
    contents = [each.get("content") for each in messages]
    parts = [part for each in contents if isinstance(each, list) for part in each]
    kinds = [_kind(part) for part in parts if isinstance(part, dict) and part]
    return {_FORM_OF_PART[kind] for kind in kinds if kind in _FORM_OF_PART}


def _have_roles(messages: Sequence[RawMessage]) -> bool:
    return all("role" in each and "parts" not in each for each in messages)


def _is_openai(messages: Sequence[RawMessage]) -> bool:
    calls = any(each.get("tool_calls") or each.get("function_call") for each in messages)
    return _have_roles(messages) and (calls or not _forms_of_parts(messages))


def _is_responses(messages: Sequence[RawMessage]) -> bool:
    items = ["role" not in each and each.get("type") in _ITEMS for each in messages]
    rest = [each for each, is_item in zip(messages, items, strict=True) if not is_item]
    return _have_roles(rest) and (any(items) or "responses" in _forms_of_parts(messages))


def _has_parts_of(form: str) -> Callable[[Sequence[RawMessage]], bool]:
    return lambda messages: _have_roles(messages) and form in _forms_of_parts(messages)


MESSAGE_FORMS = (
    MessageForm("openai", _is_openai, _by_role),
    MessageForm("responses", _is_responses, _item),
    *(
        MessageForm(name, _has_parts_of(name), _by_role)
        for name in ("anthropic", "bedrock", "ai sdk")
    ),
    MessageForm("gemini", lambda them: all(objects(each.get("parts")) for each in them), _gemini),
    MessageForm(
        "sharegpt", lambda them: all({"from", "value"} <= each.keys() for each in them), _share_gpt
    ),
    MessageForm(
        "langchain",
        lambda them: all("role" not in each and _is_langchain(each) for each in them),
        _langchain,
    ),
)
"""Forms of messages; of a list that is read exactly one holds."""
