"""Answers in OpenAI's form: completions, their chunks, the list of models."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.types import Call, FunctionDoc, Message
from fctncalling.data.unsafe_text import encodable_text
from fctncalling.envs.handlers import DecodeError, Handler, bears_call, split_thought
from fctncalling.envs.handlers.call_marks import MARK, is_opened
from fctncalling.lab.gateway.action_forest import SampledAction
from fctncalling.lab.gateway.chat_messages import canonical_arguments, message_key
from fctncalling.lab.gateway.completion_request import CompletionRequest

_ID_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
ID_LENGTH = 9  # the one length that Mistral's templates take


class AnswerMessage(NamedTuple):
    """One choice of an answer."""

    message: dict[str, Any]  # as the agent gets it
    key: str  # see message_key
    call_ids: tuple[str, ...]
    calls: tuple[Call, ...]
    has_unread_call: bool = False  # a call opens in it, and none can be read


def _words_before_calls(text: str) -> str:
    """Return what a message that calls says before its first call."""
    return text[: next((mark.start() for mark in MARK.finditer(text) if is_opened(text, mark)), 0)]


def answer_message(
    text: str,
    handler: Handler | None,
    session: str,
    number: int,
    *,
    functions: Sequence[FunctionDoc] = (),
    stop: str = "",
    header: str | None = "",
) -> AnswerMessage:
    """Return the message of an action: `number` of a session, whose text is this.

    handler: reads calls of `functions`; None where none are read. stop: the stop string that ended
    the action, which is left out, as is all behind it. header: of words, that the template writes;
    None where the whole text is the answer, thoughts and all.
    """
    shown = text[: text.index(stop)] if stop and stop in text else text
    read, calls = _calls(shown, handler, functions) if handler is not None else ((), [])
    thought, rest, _ = split_thought(shown) if header is not None else ("", shown, True)
    apart = {"reasoning_content": encodable_text(thought)} if thought else {}
    if not calls:
        words = encodable_text(rest.removeprefix(header or ""))
        message: dict[str, Any] = {"role": "assistant", "content": words, **apart}
        key = message_key({**message, "tool_calls": ()})
        return AnswerMessage(message, key, (), (), handler is not None and bears_call(shown))
    before = encodable_text(_words_before_calls(rest).strip())
    ids = tuple(_call_id(session, number, index) for index in range(len(calls)))
    listed = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, (name, arguments) in zip(ids, calls, strict=True)
    ]
    known: Message = {
        "content": before,
        "tool_calls": [
            {"name": name, "arguments": canonical_arguments(arguments)} for name, arguments in calls
        ],
    }
    message = {"role": "assistant", "content": before or None, "tool_calls": listed, **apart}
    return AnswerMessage(message, message_key(known), ids, read)


def _calls(
    text: str, handler: Handler, functions: Sequence[FunctionDoc]
) -> tuple[tuple[Call, ...], list[tuple[str, str]]]:
    """Return the calls of a text, and the name and JSON arguments of each.

    None where the text holds none, or one that JSON cannot say.
    """
    try:
        calls = tuple(handler.decode(text, functions))
        return calls, [_as_json(call) for call in calls]
    except (DecodeError, TypeError, ValueError, RecursionError):
        return (), []


def _as_json(call: Call) -> tuple[str, str]:
    arguments = json.dumps(dict(call.arguments), allow_nan=False)
    return encodable_text(call.name), arguments


def _call_id(session: str, number: int, index: int) -> str:
    """Return the id of a call: letters and digits that no other call of the gateway has."""
    digest = hashlib.sha256(f"{session}\n{number}\n{index}".encode()).digest()
    value, letters = int.from_bytes(digest[:8], "big"), ""
    for _ in range(ID_LENGTH):
        value, place = divmod(value, len(_ID_CHARACTERS))
        letters += _ID_CHARACTERS[place]
    return letters


def token_logprobs(texts: Sequence[str], logprobs: Sequence[float]) -> dict[str, Any]:
    """Return log-probabilities of an action in the form of chat completions."""
    content = [
        {
            "token": encodable_text(text),
            "logprob": logprob,
            "bytes": list(encodable_text(text).encode()),
            "top_logprobs": [],
        }
        for text, logprob in zip(texts, logprobs, strict=True)
    ]
    return {"content": content, "refusal": None}


@dataclass(frozen=True)
class AnsweredRequest:
    """A request with its choices: an action and its message each."""

    id: str
    model: str
    request: CompletionRequest
    prompt: Sequence[int]
    actions: Sequence[SampledAction]
    messages: Sequence[AnswerMessage]
    session: str

    def usage(self) -> dict[str, int]:
        """Return numbers of tokens."""
        sampled = sum(len(action.ids) for action in self.actions)
        return {
            "prompt_tokens": len(self.prompt),
            "completion_tokens": sampled,
            "total_tokens": len(self.prompt) + sampled,
        }

    def finish_reason(self, choice: int) -> str:
        """Return why a choice ended, in OpenAI's words."""
        if self.actions[choice].truncated:
            return "length"
        return "tool_calls" if self.messages[choice].calls else "stop"

    def choices(self) -> Iterator[tuple[int, SampledAction, AnswerMessage]]:
        """Yield the number, action and message of each choice."""
        pairs = zip(self.actions, self.messages, strict=True)
        yield from ((index, *pair) for index, pair in enumerate(pairs))

    def head(self, kind: str) -> dict[str, Any]:
        """Return the fields that every answer and chunk begins with."""
        return {"id": self.id, "object": kind, "created": int(time.time()), "model": self.model}


def chat_answer(answered: AnsweredRequest, template: ChatTemplate) -> dict[str, Any]:
    """Return the body that answers /v1/chat/completions."""
    parts = [
        {"message": answer.message, "logprobs": _chat_logprobs(answered, action, template)}
        for _, action, answer in answered.choices()
    ]
    return _body(answered, "chat.completion", parts)


def text_completion_body(answered: AnsweredRequest, template: ChatTemplate) -> dict[str, Any]:
    """Return the body that answers /v1/completions."""
    parts = [
        {"text": answer.message["content"], "logprobs": _text_logprobs(answered, action, template)}
        for _, action, answer in answered.choices()
    ]
    return _body(answered, "text_completion", parts)


def final_chat_chunks(
    answered: AnsweredRequest, template: ChatTemplate, sent: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the last chunks of a stream; sent: text of each choice that went out before."""
    kind = "chat.completion.chunk"
    for index, action, answer in answered.choices():
        delta: dict[str, Any] = {"role": "assistant"} if not sent[index] else {}
        delta["content"] = (answer.message["content"] or "")[len(sent[index]) :] or None
        if thought := answer.message.get("reasoning_content"):
            delta["reasoning_content"] = thought
        if answer.calls:
            calls = answer.message["tool_calls"]
            delta["tool_calls"] = [{"index": at, **each} for at, each in enumerate(calls)]
        logprobs = _chat_logprobs(answered, action, template)
        if any(delta.values()):
            yield _chunk(answered, kind, index, {"delta": delta, "logprobs": logprobs}, None)
        last = {"delta": {}, **_unread_field(answer)}
        yield _chunk(answered, kind, index, last, answered.finish_reason(index))
    yield from _usage_chunk(answered, kind)


def final_text_chunks(
    answered: AnsweredRequest, template: ChatTemplate, sent: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the last chunks of a stream of raw text."""
    kind = "text_completion"
    for index, action, answer in answered.choices():
        rest = {"text": answer.message["content"][len(sent[index]) :]}
        rest["logprobs"] = _text_logprobs(answered, action, template)
        yield _chunk(answered, kind, index, rest, answered.finish_reason(index))
    yield from _usage_chunk(answered, kind)


def text_chunk(head: dict[str, Any], index: int, text: str, *, first: bool) -> dict[str, Any]:
    """Return a chunk with the next piece of a choice's text."""
    if head["object"] == "text_completion":
        part: dict[str, Any] = {"text": text, "logprobs": None}
    else:
        part = {"delta": {**({"role": "assistant"} if first else {}), "content": text}}
    return {**head, "choices": [{"index": index, **part, "finish_reason": None}]}


def models_answer(name: str) -> dict[str, Any]:
    """Return the body that answers /v1/models."""
    model = {"id": name, "object": "model", "created": 0, "owned_by": "fctncalling"}
    return {"object": "list", "data": [model]}


def _body(answered: AnsweredRequest, kind: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    choices: list[dict[str, Any]] = [
        {"index": index, **part, "finish_reason": answered.finish_reason(index)}
        for index, part in enumerate(parts)
    ]
    for choice, answer in zip(choices, answered.messages, strict=True):
        choice |= _unread_field(answer)
    body = {**answered.head(kind), "choices": choices, "usage": answered.usage()}
    body["session"] = answered.session
    if answered.request.return_token_ids:
        body["prompt_token_ids"] = list(answered.prompt)
        for choice, action in zip(choices, answered.actions, strict=True):
            choice["token_ids"] = list(action.ids)
    return body


def _unread_field(answer: AnswerMessage) -> dict[str, bool]:
    """Return what stands beside OpenAI's fields where a call was tried, and broke."""
    return {"unread_call": True} if answer.has_unread_call else {}


def _chunk(
    answered: AnsweredRequest, kind: str, index: int, part: dict[str, Any], reason: str | None
) -> dict[str, Any]:
    return {**answered.head(kind), "choices": [{"index": index, **part, "finish_reason": reason}]}


def _usage_chunk(answered: AnsweredRequest, kind: str) -> Iterator[dict[str, Any]]:
    if answered.request.include_usage:
        yield {**answered.head(kind), "choices": [], "usage": answered.usage()}


def _chat_logprobs(
    answered: AnsweredRequest, action: SampledAction, template: ChatTemplate
) -> dict[str, Any] | None:
    if not answered.request.logprobs:
        return None
    return token_logprobs([template.spell([token]) for token in action.ids], action.logprobs)


def _text_logprobs(
    answered: AnsweredRequest, action: SampledAction, template: ChatTemplate
) -> dict[str, Any] | None:
    if not answered.request.logprobs:
        return None
    tokens = [encodable_text(template.spell([token])) for token in action.ids]
    return {"tokens": tokens, "token_logprobs": list(action.logprobs), "top_logprobs": None}


class TextStream:
    """Stream of an action's text, token by token; half characters and stops are held back."""

    def __init__(self, template: ChatTemplate, stops: Sequence[str]) -> None:
        self._template = template
        self._stops = stops
        self._ids: list[int] = []
        self.sent = ""

    def push(self, token: int) -> str:
        """Take a token; return the text that is new."""
        self._ids.append(token)
        text = self._template.decode(self._ids)
        whole = text.rstrip("\ufffd")
        found = [whole.index(stop) for stop in self._stops if stop in whole]
        whole = whole[: min(found)] if found else whole[: len(whole) - self._held_back(whole)]
        if not whole.startswith(self.sent) or len(whole) == len(self.sent):
            return ""
        new = whole[len(self.sent) :]
        self.sent = whole
        return new

    def _held_back(self, text: str) -> int:
        """Return how many last characters may begin a stop string."""
        return max(
            (
                size
                for stop in self._stops
                for size in range(1, len(stop))
                if text.endswith(stop[:size])
            ),
            default=0,
        )
