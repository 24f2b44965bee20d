"""JSON Lines of records, read and written in order, with one message for a bad line."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from fctncalling.data.json_stream import LongLineError, bounded_lines
from fctncalling.data.paths import atomic_write
from fctncalling.progress_bar import Stage

Record = dict[str, Any]
Item = TypeVar("Item")


class InputError(Exception):
    """Error of input from outside (a file, an argument) that cannot be used.

    The message names file, line, field and what was expected.
    """


class SourceRecord(NamedTuple):
    """Record with its source, a JSON Lines file and line number."""

    path: Path
    number: int  # 1 is the first
    record: Record

    def field(self, name: str, kind: type | tuple[type, ...], expected: str) -> Any:
        """Return a field of the record; InputError if it is missing or of another type."""
        if name not in self.record:
            raise self.error(name, f"expected {expected}, but there is no such field")
        value = self.record[name]
        if not isinstance(value, kind):
            raise self.error(name, f"expected {expected}, got {json.dumps(value)[:80]}")
        return value

    def error(self, field: str, text: str) -> InputError:
        """Return (not raise) an InputError about a field of the record."""
        return InputError(f'{self.path} line {self.number}: field "{field}": {text}')


def read_records(path: Path) -> Iterator[SourceRecord]:
    """Read the records of a .jsonl or .jsonl.gz file; InputError for a line that is no object."""
    try:
        with _opened(path) as file:
            for number, text in enumerate(bounded_lines(file), 1):
                if text.strip():
                    yield SourceRecord(path, number, _record(path, number, text))
    except LongLineError as error:
        raise InputError(f"{path} {error}") from None
    except (OSError, EOFError, UnicodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _record(path: Path, number: int, text: str) -> Record:
    """Return the object of a line; InputError for anything else."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        if number == 1 and text.lstrip().startswith("["):
            raise InputError(_no_lines(path)) from None
        raise InputError(f"{path} line {number}{_fault_of_line(text, error)}") from None
    if isinstance(record, list):
        raise InputError(_no_lines(path))
    if not isinstance(record, dict):
        raise InputError(
            f"{path} line {number}: expected a JSON object, got {type(record).__name__}"
        )
    return record


def _fault_of_line(text: str, error: Exception) -> str:
    """Return how the message on a line that is no JSON goes on: cut off at its end, or why."""
    text = text.rstrip()
    at = error.pos if isinstance(error, json.JSONDecodeError) else 0
    is_cut = at >= len(text) or "Unterminated" in str(error)
    if text.startswith("{") and is_cut:
        fault = f" is no complete JSON object (it ends after {len(text)} characters)"
    else:
        fault = f": expected a JSON object, but {error}"
    return f"{fault}: mend or delete it"


def _no_lines(path: Path) -> str:
    return (
        f"{path} line 1: expected a JSON object, got a JSON array: write one object a line, as "
        f"`jq -c '.[]' {path}` does"
    )


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write records as JSON Lines, compressed if the name ends in .gz.

    A file appears only when it is complete, and what is no regular file (a device, a pipe) is
    written through.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as partial, _opened(partial, "wt", path.suffix) as file:
            for record in records:
                file.write(json.dumps(record) + "\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from None


def _opened(path: Path, mode: str = "rt", suffix: str | None = None) -> IO[str]:
    if (path.suffix if suffix is None else suffix) == ".gz":
        return gzip.open(path, mode, encoding="utf-8")  # type: ignore[return-value]  # text modes only
    return open(path, mode, encoding="utf-8")


def with_progress_bar(
    items: Iterable[Item], description: str, unit: str, total: int | None = None
) -> Iterator[Item]:
    """Yield items with progress on stderr: a bar on a terminal, else a line every half minute."""
    with Stage(description, total or 0, unit, lines_to=sys.stderr) as stage:
        for item in items:
            stage.count()
            yield item
