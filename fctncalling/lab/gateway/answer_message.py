"""Answer message: sampled text as an assistant message in OpenAI's form, calls as `tool_calls`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from fctncalling.data.types import Call, Message
from fctncalling.data.unsafe_text import encodable_text
from fctncalling.envs.handlers.handler import DecodeError, Handler
from fctncalling.envs.handlers.registry import HANDLERS_BY_MARK
from fctncalling.lab.gateway.chat_messages import canonical_arguments, message_key

_MARK = re.compile("|".join(map(re.escape, HANDLERS_BY_MARK)))
_ID_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
ID_LENGTH = 9  # the one length that Mistral's templates take


class AnswerMessage(NamedTuple):
    """One choice of an answer."""

    message: dict[str, Any]  # as the agent gets it
    key: str  # see message_key
    call_ids: tuple[str, ...]
    calls: tuple[Call, ...]


def answer_message(
    text: str, handler: Handler | None, session: str, number: int, stop: str = ""
) -> AnswerMessage:
    """Return the message of an action: `number` of a session, whose text is this.

    handler: reads calls; None where none are read. stop: the stop string that ended the action,
    which is left out, as is all behind it.
    """
    shown = text[: text.index(stop)] if stop and stop in text else text
    read, calls = _calls(shown, handler) if handler is not None else ((), [])
    if not calls:
        message: dict[str, Any] = {"role": "assistant", "content": encodable_text(shown)}
        return AnswerMessage(message, message_key({**message, "tool_calls": ()}), (), ())
    mark = _MARK.search(shown)
    before = encodable_text(shown[: mark.start()].strip()) if mark else ""
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
    message = {"role": "assistant", "content": before or None, "tool_calls": listed}
    return AnswerMessage(message, message_key(known), ids, read)


def _calls(text: str, handler: Handler) -> tuple[tuple[Call, ...], list[tuple[str, str]]]:
    """Return the calls of a text, and the name and JSON arguments of each.

    None where the text holds none, or one that JSON cannot say.
    """
    try:
        calls = tuple(handler.decode(text))
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
