"""Conversations of a log, and their tasks: each answer is one, what stands before is its prompt.

What a log holds and is left out is counted, by reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from fctncalling.conversations.conversation import (
    Conversation,
    Exchange,
    Unreadable,
    calls_of,
    exchanges,
    offered_call,
)
from fctncalling.conversations.log_forms import forms_of, read_record
from fctncalling.conversations.message_forms import role_of
from fctncalling.data.errors import TaskError
from fctncalling.data.json_stream import read_entries
from fctncalling.data.types import Call, Message, Task, tool_call
from fctncalling.data.unsafe_text import encodable_value
from fctncalling.envs.handlers import get_handler
from fctncalling.evaluation.scripted_policies import LOGGED_ANSWER
from fctncalling.specification.api import OwnApi
from fctncalling.specification.tool_list import offered_functions

MAX_CALLS = 40  # of one answer
MAX_OFFERED = 12  # where a conversation offers nothing of its own
NO_EXCHANGE = "nothing that an assistant answered"


MAX_LINE = 1 << 22  # bytes
MAX_WHOLE = 1 << 25  # bytes of a file that is one record
MAX_REASONS = 1_000
MAX_REASON = 160  # characters
_TOLD = 10
_OTHERS = "others"
_TRIED = 16  # records by which a file is known


class ConversationLog:
    """Log of conversations: JSON Lines, a JSON array of records, or one record.

    A record has any form of `log_forms`. What cannot be read is left out and counted, with its
    reason and the number of the first, while the conversations are read. `api` is on offer in
    conversations that list no function.
    """

    def __init__(self, path: Path, api: OwnApi | None = None) -> None:
        self._path = path
        self.api = offered_functions() if api is None else api
        self._left_out: dict[str, tuple[int, int]] = {}  # reason -> how many, the first's line

    def conversations(self) -> Iterator[tuple[int, Conversation]]:
        """Yield (line, or number in the array, and conversation) of what can be read."""
        for number, record in _records(self._path):
            try:
                if isinstance(record, Unreadable):
                    raise record
                for each in read_record(record, self.api):
                    yield number, each
                    if each.fault:
                        self.leave_out(each.fault, number)
            except Unreadable as error:
                self.leave_out(str(error), number)
            except (RecursionError, OverflowError, ValueError) as error:
                self.leave_out(f"cannot be judged: {type(error).__name__}: {error}", number)

    def leave_out(self, reason: str, number: int) -> None:
        """Count a part of record `number` that is not used."""
        why = " ".join(reason[: 4 * MAX_REASON].split())[:MAX_REASON]
        why = why if why.isprintable() else repr(why)[1:-1]
        if why not in self._left_out and len(self._left_out) >= MAX_REASONS:
            why = _OTHERS
        count, first = self._left_out.get(why, (0, number))
        self._left_out[why] = (count + 1, first)

    @property
    def num_left_out(self) -> int:
        """Number of parts that were left out so far."""
        return sum(count for count, _ in self._left_out.values())

    def left_out(self) -> str:
        """Return what was left out, the commonest reasons first, each with its first line."""
        every = sorted(self._left_out.items(), key=lambda item: (-item[1][0], item[1][1]))
        told = [f"{count} (line {first}) {why}" for why, (count, first) in every[:_TOLD]]
        if rest := sum(count for _, (count, _) in every[_TOLD:]):
            told.append(f"{rest} for {len(every) - _TOLD} further reasons")
        return ", ".join(told) or "none"


def holds_conversations(path: Path) -> bool:
    """Whether one of a file's first records has a form of conversations."""
    return any(forms_of(record) for _, record in islice(_records(path), _TRIED))


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (number, record) of a file; in place of a record that cannot be read, Unreadable."""
    with path.open("rb") as file:
        head = file.read(MAX_WHOLE + 1)
    opening = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    first = opening.partition(b"\n")[0]
    whole = _parsed(head) if len(head) <= MAX_WHOLE else None
    if isinstance(whole, list) and whole and isinstance(whole[0], dict) and role_of(whole[0]):
        yield 1, whole  # messages
    elif isinstance(whole, list | dict):
        yield from enumerate(whole if isinstance(whole, list) else [whole], 1)
    elif whole is None and opening[:1] == b"[" and isinstance(_parsed(first), Unreadable):
        yield from _streamed(path)
    else:
        for number, line in _bounded_lines(path):
            yield number, _parsed(line)


def _streamed(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the entries of an array that is too long to be held."""
    number = 0
    try:
        for number, (_, entry) in enumerate(read_entries(path), 1):
            yield number, entry
    except TaskError as error:
        yield number + 1, Unreadable(str(error))


def _bounded_lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield (number, line) of what is not blank; None for a line that is too long."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if len(line) <= MAX_LINE:
                if line.strip():
                    yield number, line
                continue
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
            yield number, None


def _parsed(line: bytes | None) -> Any:
    """Return the JSON value of a line, or Unreadable."""
    if line is None:
        return Unreadable(f"has more than {MAX_LINE:,} bytes")
    try:
        return json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Unreadable("is not UTF-8")
    except (ValueError, RecursionError) as error:
        return Unreadable(f"is no JSON: {str(error).partition(': ')[0]}")


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
