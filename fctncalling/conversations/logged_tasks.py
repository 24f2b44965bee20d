"""Tasks of logged conversations: each answer is one, what stands before it is its prompt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fctncalling.conversations.conversation import (
    Exchange,
    Unreadable,
    calls_of,
    exchanges,
    offered_call,
)
from fctncalling.conversations.conversation_log import ConversationLog
from fctncalling.data.types import Call, Message, Task, tool_call
from fctncalling.data.unsafe_text import encodable_value
from fctncalling.envs.handlers import get_handler
from fctncalling.evaluation.scripted_policies import LOGGED_ANSWER
from fctncalling.specification.api import OwnApi

MAX_CALLS = 40  # of one answer
MAX_OFFERED = 12  # where a conversation offers nothing of its own
NO_EXCHANGE = "nothing that an assistant answered"


def logged_tasks(log: ConversationLog, *, words: bool = True) -> Iterator[Task]:
    """Yield a task for each answer of a log; those in words are irrelevance, or left out.

    What cannot be a task is left out and counted by the log.
    """
    seen = set[int]()
    for number, conversation in log.conversations():
        answers = list(exchanges(conversation))
        if not answers and not conversation.fault:
            log.leave_out(NO_EXCHANGE, number)
        for place, exchange in enumerate(answers):
            if not exchange.calls and not words:
                continue
            try:
                listed = conversation.api if conversation.api.functions else None
                task = _task(listed or log.api, exchange, f"{number}_{place}", listed is None)
                told = [task.question, task.extra, [each.name for each in task.functions]]
                key = hash(json.dumps(told, sort_keys=True))
                if key in seen:
                    raise Unreadable("is there twice")
            except (Unreadable, RecursionError) as error:
                log.leave_out(str(error), number)
            else:
                seen.add(key)
                yield task


def _task(api: OwnApi, exchange: Exchange, place: str, cut: bool) -> Task:
    if not api.functions:
        raise Unreadable("offers no function")
    calls = offered_calls(api, exchange.calls)
    called = {each.name for each in calls}
    functions = list(api.functions)
    if cut:  # those that are called, and others up to MAX_OFFERED
        functions = sorted(functions, key=lambda each: each.name not in called)[:MAX_OFFERED]
    _written(calls)
    kind = "parallel" * (len(calls) > 1) or "simple_python"
    if len(functions) > 1:
        kind = "parallel_multiple" if len(calls) > 1 else "multiple"
    category = kind if calls else "irrelevance"
    logged = [[each.name, dict(each.arguments)] for each in calls] or exchange.words
    return Task(
        f"{category}_{place}",
        category,
        [question(exchange.history, lambda call: offered_call(api, call))],
        functions,
        [{each.name: accepted_arguments(each.arguments)} for each in calls] if calls else None,
        extra={LOGGED_ANSWER: logged},
    )


def offered_calls(api: OwnApi, calls: Sequence[Call]) -> list[Call]:
    """Return the calls of an answer by the names on offer; Unreadable for too many."""
    if len(calls) > MAX_CALLS:
        raise Unreadable(f"more than {MAX_CALLS} calls")
    return [offered_call(api, each) for each in calls]


def question(history: Sequence[Message], renamed: Callable[[Call], Call]) -> list[Message]:
    """Return the messages of a prompt, with calls both as `tool_calls` and as text."""
    found = list[Message]()
    for message in history:
        kept: Message = {
            key: message[key]
            for key in ("role", "content", "tool_call_id", "name")
            if key in message
        }
        if listed := message.get("tool_calls"):
            calls = [renamed(each) for each in calls_of(message)]
            kept["content"] = _written(calls)
            kept["tool_calls"] = [
                tool_call(old["id"], new.name, dict(new.arguments))
                for old, new in zip(listed, calls, strict=True)
            ]
        found.append(encodable_value(kept))
    return found


def _written(calls: Sequence[Call]) -> str:
    """Return calls as BFCL's prompting form has them; Unreadable for what it cannot say."""
    try:
        return get_handler("python_calls").render(calls)
    except ValueError as error:
        raise Unreadable(f"calls that have no text: {error}") from None


def accepted_arguments(arguments: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the accepted values of a logged call's arguments: what was given, nothing else."""
    return {name: [_accepted(value)] for name, value in arguments.items()}


def _accepted(value: Any) -> Any:
    """Return a value as BFCL lists it: keys of objects have lists of accepted values."""
    if isinstance(value, dict):
        return {key: [each] for key, each in value.items()}
    if isinstance(value, list):
        return [_accepted(each) if isinstance(each, dict) else each for each in value]
    return value
