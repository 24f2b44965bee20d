"""Tasks of logged conversations: each answer is one, what stands before it is its prompt."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fctncalling.conversations.conversation import (
    Exchange,
    Unreadable,
    calls_of,
    exchanges,
    shown,
)
from fctncalling.conversations.conversation_log import ConversationLog
from fctncalling.data.types import Call, FunctionDoc, Message, Task, tool_call
from fctncalling.data.unsafe_text import encodable_value
from fctncalling.envs.handlers import get_handler
from fctncalling.evaluation.scripted_policies import LOGGED_ANSWER

MAX_CALLS = 40  # of one answer
MAX_OFFERED = 12  # where a conversation offers nothing of its own
NO_EXCHANGE = "nothing that an assistant answered"


def logged_tasks(log: ConversationLog, *, words: bool = True) -> Iterator[Task]:
    """Yield a task for each answer of a log; those in words are irrelevance, or left out.

    Names that no call in Python can bear are written with underscores. What cannot be a task is
    left out and counted by the log.
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
                functions = conversation.functions or _some(log.functions, exchange.calls)
                task = _task(functions, exchange, f"{number}_{place}")
                told = [task.question, task.extra, [each.name for each in task.functions]]
                key = hash(json.dumps(told, sort_keys=True))
                if key in seen:
                    raise Unreadable("is there twice")
            except (Unreadable, RecursionError) as error:
                log.leave_out(str(error), number)
            else:
                seen.add(key)
                yield task


def _task(functions: Sequence[FunctionDoc], exchange: Exchange, place: str) -> Task:
    if not functions:
        raise Unreadable("offers no function")
    names = _Names(list({each.name: each for each in functions}.values()))
    calls = [names.call(each) for each in exchange.calls]
    if len(calls) > MAX_CALLS:
        raise Unreadable(f"more than {MAX_CALLS} calls")
    _written(calls)
    kind = "parallel" * (len(calls) > 1) or "simple_python"
    if len(names.functions) > 1:
        kind = "parallel_multiple" if len(calls) > 1 else "multiple"
    category = kind if calls else "irrelevance"
    logged = [[each.name, dict(each.arguments)] for each in calls] or exchange.words
    return Task(
        f"{category}_{place}",
        category,
        [question(exchange.history, names.call)],
        names.functions,
        [{each.name: accepted_arguments(each.arguments)} for each in calls] if calls else None,
        extra={LOGGED_ANSWER: logged},
    )


def _some(functions: Sequence[FunctionDoc], calls: Sequence[Call]) -> list[FunctionDoc]:
    """Return the functions that are called, and others up to MAX_OFFERED."""
    called = {each.name for each in calls}
    return sorted(functions, key=lambda each: each.name not in called)[:MAX_OFFERED]


class _Names:
    """Names of functions and parameters such as a call in Python can bear."""

    def __init__(self, functions: Sequence[FunctionDoc]) -> None:
        self._of_function = _bearable(each.name for each in functions)
        self._of_parameters = {
            each.name: _bearable(each.parameters["properties"]) for each in functions
        }
        self.functions = [self._doc(each) for each in functions]

    def _doc(self, doc: FunctionDoc) -> FunctionDoc:
        new = self._of_parameters[doc.name]
        parameters = {
            "type": "dict",
            "properties": {new[name]: each for name, each in doc.parameters["properties"].items()},
            "required": [new[name] for name in doc.parameters["required"]],
        }
        return FunctionDoc(self._of_function[doc.name], doc.description, parameters)

    def call(self, call: Call) -> Call:
        """Return a call by those names; Unreadable for what is not on offer."""
        if call.name not in self._of_function:
            raise Unreadable(f"calls {shown(call.name)}, which is not on offer")
        new = self._of_parameters[call.name]
        if foreign := [each for each in call.arguments if each not in new]:
            raise Unreadable(
                f"gives {shown(call.name)} {shown(foreign[0])}, which it does not take"
            )
        given = {new[name]: encodable_value(each) for name, each in call.arguments.items()}
        return Call(self._of_function[call.name], given)


def _bearable(names: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        new = ".".join(_word(part) for part in name.split("."))
        while new in found.values():
            new += "_"
        found[name] = new
    return found


def _word(name: str) -> str:
    new = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return f"_{new}" if new[0].isdigit() else f"{new}_" if keyword.iskeyword(new) else new


def question(history: Sequence[Message], renamed: Any = lambda call: call) -> list[Message]:
    """Return the messages of a prompt: calls stand in it as `tool_calls` and, for whoever reads
    texts alone, as text.
    """
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
