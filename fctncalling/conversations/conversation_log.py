"""ConversationLog: the conversations of a file, with a count of what was left out, by reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from fctncalling.conversations.conversation import Conversation, Unreadable
from fctncalling.conversations.log_forms import forms_of, read_record
from fctncalling.conversations.message_forms import role_of
from fctncalling.data.errors import TaskError
from fctncalling.data.json_stream import read_entries
from fctncalling.specification.api import OwnApi
from fctncalling.specification.tool_list import offered_functions

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
