"""Conversation: messages in OpenAI's form and the functions on offer; its exchanges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fctncalling.data.types import Call, Message, tool_call
from fctncalling.data.unsafe_text import encodable_value
from fctncalling.specification.api import OwnApi, shown


class Unreadable(ValueError):
    """Part of a log that cannot be read; the message is the reason by which it is counted."""


@dataclass(frozen=True)
class Conversation:
    """Conversation: roles are system, user, assistant and tool, contents texts.

    Calls stand in `tool_calls`, their arguments as objects; a result has the id and the name of the
    call that it answers. Names of functions and parameters may be the log's.
    """

    messages: Sequence[Message]
    api: OwnApi  # what is on offer
    fault: str = ""  # why nothing behind these messages was read


class Exchange(NamedTuple):
    """Exchange: an assistant's input, and its answer."""

    history: Sequence[Message]  # its last message is a request, or a result
    calls: Sequence[Call]
    words: str  # beside the calls, or in their place


def exchanges(conversation: Conversation) -> Iterator[Exchange]:
    """Yield each message of the assistant with the messages before it.

    Those of OpenAI's weight 0, which nobody is to learn, are left out, and a greeting that nobody
    asked for.
    """
    messages = conversation.messages
    for at, message in enumerate(messages):
        is_asked = any(each["role"] != "system" for each in messages[:at])
        if message["role"] == "assistant" and is_asked and message.get("weight") != 0:
            yield Exchange(messages[:at], calls_of(message), message["content"])


def offered_call(api: OwnApi, call: Call) -> Call:
    """Return a call with the API's names; raises Unreadable if the API lacks its function."""
    name, given = api.own_call(call.name, call.arguments)
    if (doc := api.by_name.get(name)) is None:
        raise Unreadable(f"calls {shown(call.name)}, which is not on offer")
    if foreign := [each for each in given if each not in doc.parameters["properties"]]:
        raise Unreadable(f"gives {name} {shown(foreign[0])}, which it does not take")
    if len(given) < len(call.arguments):
        raise Unreadable(f"gives {name} an argument twice, by two names")
    return Call(name, encodable_value(given))


def calls_of(message: Message) -> list[Call]:
    """Return the calls of an assistant's message."""
    functions = [each["function"] for each in message.get("tool_calls", ())]
    return [Call(each["name"], each["arguments"]) for each in functions]


def read_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """Return a call in OpenAI's form, arguments as an object; Unreadable where it is none."""
    if not isinstance(name, str) or not name:
        raise Unreadable(f"a call whose name is {shown(name)}")
    given = loaded(arguments) if arguments not in (None, "", []) else {}
    if not isinstance(given, dict):
        raise Unreadable(f"calls {shown(name)} with arguments that are no JSON object")
    return tool_call(call_id if isinstance(call_id, str) else "", name, given)


def loaded(value: Any) -> Any:
    """Return the JSON value of a text, or the text where it is none; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return a list of objects, perhaps in JSON text; an empty list for anything else."""
    items = loaded(value)
    is_list = isinstance(items, list) and all(isinstance(each, dict) for each in items)
    return items if is_list else []
