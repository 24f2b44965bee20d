"""Answers in OpenAI's form: completions, their chunks, the list of models."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.types import Call, FunctionDoc, Message, tool_call
from fctncalling.data.unsafe_text import encodable_text
from fctncalling.envs.handlers import DecodeError, Handler, bears_call, split_thought
from fctncalling.envs.handlers.call_marks import MARK, is_opened
from fctncalling.lab.gateway.action_forest import SampledAction
from fctncalling.lab.gateway.completion_request import (
    CompletionRequest,
    canonical_arguments,
    message_key,
)

_ID_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
ID_LENGTH = 9  # the one length that Mistral's templates take


class AnswerMessage(NamedTuple):
    """One choice of an answer."""

    message: dict[str, Any]  # as the agent gets it
    key: str  # see message_key
    call_ids: tuple[str, ...]
    calls: tuple[Call, ...]
    has_unread_call: bool = False  # a call opens in it, and none can be read


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
    """Return the message of an action: `number` of a session, with its text.

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
    first = next((mark.start() for mark in MARK.finditer(rest) if is_opened(rest, mark)), 0)
    before = encodable_text(rest[:first].strip())
    ids = tuple(_call_id(session, number, index) for index in range(len(calls)))
    listed = [tool_call(call_id, *call) for call_id, call in zip(ids, calls, strict=True)]
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
        arguments = [json.dumps(dict(call.arguments), allow_nan=False) for call in calls]
        names = [encodable_text(call.name) for call in calls]
        return calls, list(zip(names, arguments, strict=True))
    except (DecodeError, TypeError, ValueError, RecursionError):
        return (), []


def _call_id(session: str, number: int, index: int) -> str:
    """Return the id of a call: letters and digits that no other call of the gateway has."""
    digest = hashlib.sha256(f"{session}\n{number}\n{index}".encode()).digest()
    value, letters = int.from_bytes(digest[:8], "big"), ""
    for _ in range(ID_LENGTH):
        value, place = divmod(value, len(_ID_CHARACTERS))
        letters += _ID_CHARACTERS[place]
    return letters


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

    def head(self, kind: str) -> dict[str, Any]:
        """Return the fields that every answer and chunk begins with."""
        return {"id": self.id, "object": kind, "created": int(time.time()), "model": self.model}

    def logprobs(self, choice: int, template: ChatTemplate) -> dict[str, Any] | None:
        """Return log-probabilities of a choice's tokens; None if nobody asked for them."""
        if not self.request.logprobs:
            return None
        action = self.actions[choice]
        texts = [encodable_text(template.spell([token])) for token in action.ids]
        if not self.request.is_chat:
            logprobs = list(action.logprobs)
            return {"tokens": texts, "token_logprobs": logprobs, "top_logprobs": None}
        content = [
            {
                "token": text,
                "logprob": logprob,
                "bytes": list(text.encode()),
                "top_logprobs": [],
            }
            for text, logprob in zip(texts, action.logprobs, strict=True)
        ]
        return {"content": content, "refusal": None}


def answer_body(answered: AnsweredRequest, template: ChatTemplate) -> dict[str, Any]:
    """Return the body that answers /v1/chat/completions or /v1/completions."""
    is_chat, choices = answered.request.is_chat, list[dict[str, Any]]()
    for index, answer in enumerate(answered.messages):
        said = {"message": answer.message} if is_chat else {"text": answer.message["content"]}
        choice: dict[str, Any] = {
            "index": index,
            **said,
            "logprobs": answered.logprobs(index, template),
        }
        choice |= {"finish_reason": answered.finish_reason(index), **_unread_field(answer)}
        if answered.request.return_token_ids:
            choice["token_ids"] = list(answered.actions[index].ids)
        choices.append(choice)
    head = answered.head("chat.completion" if is_chat else "text_completion")
    body = {**head, "choices": choices, "usage": answered.usage(), "session": answered.session}
    if answered.request.return_token_ids:
        body["prompt_token_ids"] = list(answered.prompt)
    return body


def final_chunks(
    answered: AnsweredRequest, template: ChatTemplate, sent: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the last chunks of a stream; sent: text of each choice that went out before."""
    is_chat = answered.request.is_chat
    head = answered.head("chat.completion.chunk" if is_chat else "text_completion")
    for index, answer in enumerate(answered.messages):
        logprobs, last = answered.logprobs(index, template), dict[str, Any]()
        rest = (answer.message["content"] or "")[len(sent[index]) :]
        if is_chat:
            delta: dict[str, Any] = {} if sent[index] else {"role": "assistant"}
            delta["content"] = rest or None
            if thought := answer.message.get("reasoning_content"):
                delta["reasoning_content"] = thought
            if answer.calls:
                calls = answer.message["tool_calls"]
                delta["tool_calls"] = [{"index": at, **each} for at, each in enumerate(calls)]
            if any(delta.values()):
                yield _chunk(head, index, {"delta": delta, "logprobs": logprobs})
            last = {"delta": {}, **_unread_field(answer)}
        else:
            last = {"text": rest, "logprobs": logprobs}
        yield _chunk(head, index, last, answered.finish_reason(index))
    if answered.request.include_usage:
        yield {**head, "choices": [], "usage": answered.usage()}


def text_chunk(head: dict[str, Any], index: int, text: str, *, first: bool) -> dict[str, Any]:
    """Return a chunk with the next piece of a choice's text."""
    if head["object"] == "text_completion":
        part: dict[str, Any] = {"text": text, "logprobs": None}
    else:
        part = {"delta": {**({"role": "assistant"} if first else {}), "content": text}}
    return _chunk(head, index, part)


def models_answer(name: str) -> dict[str, Any]:
    """Return the body that answers /v1/models."""
    model = {"id": name, "object": "model", "created": 0, "owned_by": "fctncalling"}
    return {"object": "list", "data": [model]}


def _unread_field(answer: AnswerMessage) -> dict[str, bool]:
    """Return the field beside OpenAI's of a call that was tried and cannot be read."""
    return {"unread_call": True} if answer.has_unread_call else {}


def _chunk(
    head: dict[str, Any], index: int, part: dict[str, Any], reason: str | None = None
) -> dict[str, Any]:
    return {**head, "choices": [{"index": index, **part, "finish_reason": reason}]}


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
