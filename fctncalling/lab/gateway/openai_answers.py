"""Answers in OpenAI's form: completions, their chunks, the list of models."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.unsafe_text import encodable_text
from fctncalling.lab.gateway.action_forest import SampledAction
from fctncalling.lab.gateway.answer_message import AnswerMessage, token_logprobs
from fctncalling.lab.gateway.completion_request import CompletionRequest


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


def chat_answer(answered: AnsweredRequest, template: ChatTemplate) -> dict[str, Any]:
    """Return the body that answers /v1/chat/completions."""
    choices = []
    for index, (action, answer) in enumerate(zip(answered.actions, answered.messages, strict=True)):
        choices.append(
            {
                "index": index,
                "message": answer.message,
                "finish_reason": answered.finish_reason(index),
                "logprobs": _chat_logprobs(answered, action, template),
                **_token_ids(answered, action),
            }
        )
    return _body(answered, "chat.completion", choices)


def text_completion_body(answered: AnsweredRequest, template: ChatTemplate) -> dict[str, Any]:
    """Return the body that answers /v1/completions."""
    choices = [
        {
            "index": index,
            "text": answer.message["content"],
            "finish_reason": answered.finish_reason(index),
            "logprobs": _text_logprobs(answered, action, template),
            **_token_ids(answered, action),
        }
        for index, (action, answer) in enumerate(
            zip(answered.actions, answered.messages, strict=True)
        )
    ]
    return _body(answered, "text_completion", choices)


def final_chat_chunks(
    answered: AnsweredRequest, template: ChatTemplate, sent: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the last chunks of a stream; sent: text of each choice that went out before."""
    kind = "chat.completion.chunk"
    for index, (action, answer) in enumerate(zip(answered.actions, answered.messages, strict=True)):
        delta: dict[str, Any] = {"role": "assistant"} if not sent[index] else {}
        delta["content"] = (answer.message["content"] or "")[len(sent[index]) :] or None
        if answer.calls:
            calls = answer.message["tool_calls"]
            delta["tool_calls"] = [{"index": at, **each} for at, each in enumerate(calls)]
        logprobs = _chat_logprobs(answered, action, template)
        if any(delta.values()):
            yield _chunk(answered, kind, index, {"delta": delta, "logprobs": logprobs}, None)
        yield _chunk(answered, kind, index, {"delta": {}}, answered.finish_reason(index))
    if answered.request.include_usage:
        yield {**answered.head(kind), "choices": [], "usage": answered.usage()}


def final_text_chunks(
    answered: AnsweredRequest, template: ChatTemplate, sent: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the last chunks of a stream of raw text."""
    kind = "text_completion"
    for index, (action, answer) in enumerate(zip(answered.actions, answered.messages, strict=True)):
        rest = {"text": answer.message["content"][len(sent[index]) :]}
        rest["logprobs"] = _text_logprobs(answered, action, template)
        yield _chunk(answered, kind, index, rest, answered.finish_reason(index))
    if answered.request.include_usage:
        yield {**answered.head(kind), "choices": [], "usage": answered.usage()}


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


def _body(answered: AnsweredRequest, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    extra = {}
    if answered.request.return_token_ids:
        extra = {"prompt_token_ids": list(answered.prompt)}
    return {
        **answered.head(kind),
        "choices": choices,
        "usage": answered.usage(),
        "session": answered.session,
        **extra,
    }


def _chunk(
    answered: AnsweredRequest, kind: str, index: int, part: dict[str, Any], reason: str | None
) -> dict[str, Any]:
    return {**answered.head(kind), "choices": [{"index": index, **part, "finish_reason": reason}]}


def _token_ids(answered: AnsweredRequest, action: SampledAction) -> dict[str, Any]:
    return {"token_ids": list(action.ids)} if answered.request.return_token_ids else {}


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
