"""Requests of the user's own logs, as tasks with the calls that answered them.

A line that cannot be used is left out and counted, with its reason and the number of the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.data.unsafe_text import encodable_value
from fctncalling.lab.forge.own_api.drawn_call import (
    AskableApi,
    DrawnCall,
    RequestDraft,
    accepted_arguments,
)
from fctncalling.lab.forge.own_api.own_entries import draft_entry, draft_fault
from fctncalling.lab.own_api.api import one_line, shown

MAX_LINE = 1 << 22  # bytes
MAX_REQUEST = 20_000  # characters
MAX_CALLS = 40  # that answer one request
MAX_REASONS = 1_000
_TOLD = 10
_OTHERS = "others"


class LoggedRequests:
    """Requests of a log that calls answered; what was left out is counted while they are read.

    Lines hold {"messages": [...]} or the messages alone, in OpenAI's form.
    """

    def __init__(self, path: Path, api: AskableApi) -> None:
        if path.exists() and not path.is_file():
            raise InputError(f"--from_logs {path}: is no file but a folder, a device or a pipe")
        path.open("rb").close()
        self._path = path
        self._api = api
        self._left_out: dict[str, tuple[int, int]] = {}  # reason -> how many, the first's line
        self._seen: set[int] = set()
        self.count = 0

    def tasks(self) -> Iterator[dict[str, Any]]:
        """Yield a task for each conversation that begins with a request and calls."""
        for number, line in _bounded_lines(self._path):
            try:
                entry = self._task(line)
            except _Unusable as error:
                self._leave_out(str(error), number)
            except (RecursionError, OverflowError, ValueError) as error:
                self._leave_out(f"cannot be judged: {type(error).__name__}: {error}", number)
            else:
                self.count += 1
                yield entry

    def left_out(self) -> str:
        """Return what was left out, the commonest reasons first, each with its first line."""
        every = sorted(self._left_out.items(), key=lambda item: (-item[1][0], item[1][1]))
        told = [f"{count} (line {first}) {why}" for why, (count, first) in every[:_TOLD]]
        if rest := sum(count for _, (count, _) in every[_TOLD:]):
            told.append(f"{rest} for {len(every) - _TOLD} further reasons")
        return ", ".join(told) or "none"

    def _leave_out(self, reason: str, line: int) -> None:
        why = one_line(reason, 160)
        if why not in self._left_out and len(self._left_out) >= MAX_REASONS:
            why = _OTHERS
        count, first = self._left_out.get(why, (0, line))
        self._left_out[why] = (count + 1, first)

    def _task(self, line: bytes | None) -> dict[str, Any]:
        text, calls = _request(_messages(line))
        if hash(text) in self._seen:
            raise _Unusable("is there twice")
        draft = RequestDraft(text, [self._drawn(call) for call in calls])
        category = "multiple" if len(calls) == 1 else "parallel_multiple"
        entry = draft_entry(self._api, draft, category, self.count)
        if fault := draft_fault(entry, draft):
            raise _Unusable(fault)
        self._seen.add(hash(text))
        return entry

    def _drawn(self, call: Mapping[str, Any]) -> DrawnCall:
        given_name, arguments = call.get("name"), call.get("arguments") or {}
        name, _ = self._api.api.own_call(str(given_name), {})
        words = self._api.words.get(name)
        if words is None or not isinstance(given_name, str):
            raise _Unusable(f"calls {shown(given_name, 60)}, which the API does not have")
        try:
            given = json.loads(arguments) if isinstance(arguments, str) else arguments
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            raise _Unusable(f"calls {name} with arguments that are no JSON object")
        _, given = self._api.api.own_call(name, given)
        if foreign := [each for each in given if each not in words.kinds]:
            raise _Unusable(f"gives {name} {shown(foreign[0])}, which it does not take")
        given = encodable_value(given)
        return DrawnCall(name, given, accepted_arguments(words, given))


class _Unusable(Exception):
    """A line that makes no task."""


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


def _messages(line: bytes | None) -> Sequence[Mapping[str, Any]]:
    if line is None:
        raise _Unusable(f"has more than {MAX_LINE:,} bytes")
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _Unusable("is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise _Unusable(f"is no JSON: {str(error).partition(': ')[0]}") from None
    messages = record.get("messages") if isinstance(record, dict) else record
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise _Unusable('is not {"messages": [...]} in OpenAI\'s form')
    return messages


def _request(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the first request with the calls that answer it; _Unusable where there are none."""
    talk = [each for each in messages if each.get("role") not in ("system", "developer")]
    roles = [each.get("role") for each in talk[:2]]
    text, calls = (talk[0].get("content"), talk[1].get("tool_calls")) if len(talk) > 1 else ("", 0)
    if roles != ["user", "assistant"] or not calls or not isinstance(text, str) or not text.strip():
        raise _Unusable("no user message that is answered by calls")
    if len(text) > MAX_REQUEST:
        raise _Unusable(f"a request of more than {MAX_REQUEST:,} characters")
    if not isinstance(calls, list) or not all(isinstance(each, dict) for each in calls):
        raise _Unusable(f"tool_calls: {shown(calls)}: expected a list of objects")
    if len(calls) > MAX_CALLS:
        raise _Unusable(f"more than {MAX_CALLS} calls")
    functions = [each.get("function", each) for each in calls]
    if wrong := [each for each in functions if not isinstance(each, dict)]:
        raise _Unusable(f"function: {shown(wrong[0])}: expected an object with name and arguments")
    return encodable_value(text), functions
