"""Messages as chat templates read them: roles, calls with their results, content as parts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.data.types import Call, Message, tool_call


def replace_unknown_roles(
    messages: Sequence[Message], known_roles: Mapping[str, bool], *, merge_users: bool
) -> list[Message]:
    """Replace unknown roles, which the template does not know, in messages by "user".

    known_roles: role -> whether the template renders it; roles not in it are known. "tool" is that
    of results behind a text, "result" that of results behind calls. A replaced message is merged
    with a neighbouring user message; two that were user messages from the start only with
    `merge_users` (templates that drop all but the last of them).
    """
    adapted: list[Message] = []
    replaced_before = False  # the previous message got the user role here
    behind_calls = False
    for message in messages:
        role = message["role"]
        if role != "tool":
            behind_calls = bool(message.get("tool_calls"))
        known = known_roles.get("result" if role == "tool" and behind_calls else role, True)
        message = {
            **message,
            "role": role if known else "user",
            "content": message.get("content") or "",
        }
        follows_user = adapted and adapted[-1]["role"] == message["role"] == "user"
        if follows_user and (merge_users or replaced_before or not known):
            joined = f"{adapted[-1]['content']}\n{message['content']}"
            adapted[-1] = {**adapted[-1], "content": joined}
        else:
            adapted.append(message)
        replaced_before = not known
    return adapted


def as_parts(messages: Sequence[Message]) -> list[Message]:
    """Return messages with each content as a list of one part of text."""
    return [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages]


def with_text_arguments(messages: Sequence[Message]) -> list[Message]:
    """Return messages with the arguments of calls as JSON text."""
    return [
        {**m, "tool_calls": [_with_text(call) for call in m["tool_calls"]]}
        if m.get("tool_calls")
        else m
        for m in messages
    ]


def _with_text(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping) or isinstance(function.get("arguments"), str):
        return dict(call)
    text = json.dumps(function.get("arguments"), ensure_ascii=False)
    return {**call, "function": {**function, "arguments": text}}


def number_id(name: str, number: int) -> str:
    """Return the id of a call that its template writes in no text; nine digits, as Mistral wants.

    number: of the calls before it in the conversation.
    """
    return f"{number:09d}"


def name_id(name: str, number: int) -> str:
    """Return the id of a call that stands in its text in place of the name, as Kimi's does."""
    return f"functions.{name}:{number}"


def calls_message(
    calls: Sequence[Call], num_before: int = 0, *, text: str = "", named_ids: bool = False
) -> Message:
    """Return the assistant message of calls, in OpenAI's form, arguments in the order given.

    num_before: calls of the conversation before these. text: what was sampled, which may spell the
    ids. named_ids: ids hold the functions' names (`name_id`).
    """
    make_id = name_id if named_ids else number_id
    listed = []
    for number, call in enumerate(calls, num_before):
        call_id = make_id(call.name, number)
        if named_ids:
            spelled = re.findall(rf"functions\.{re.escape(call.name)}:\d+", text)
            same = sum(each.name == call.name for each in calls[: number - num_before])
            call_id = spelled[same] if same < len(spelled) else call_id
        listed.append(tool_call(call_id, call.name, dict(call.arguments)))
    return {"role": "assistant", "content": "", "tool_calls": listed}


def name_results(messages: Sequence[Message], behind: Message | None) -> list[Message]:
    """Return messages whose leading results have name and id of the calls that they answer.

    A result that bears an id is that call's, others answer the calls in order.
    """
    calls = list(behind.get("tool_calls") or ()) if behind is not None else []
    named = list[Message]()
    for index, message in enumerate(messages):
        if message["role"] != "tool" or index >= len(calls):
            return [*named, *messages[index:]]
        function = calls[index]["function"]
        call_id = message.get("tool_call_id") or calls[index].get("id", "")
        named.append({**message, "name": function["name"], "tool_call_id": call_id})
    return named


def num_results(messages: Sequence[Message]) -> int:
    """Return the number of results that messages begin with."""
    others = (index for index, each in enumerate(messages) if each["role"] != "tool")
    return next(others, len(messages))
