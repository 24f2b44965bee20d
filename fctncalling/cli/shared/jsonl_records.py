"""JSON Lines of records, read and written in order,
with one clear message for what cannot be read.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from fctncalling.cli.shared.task_store import TaskStore
from fctncalling.data import format_sensitivity
from fctncalling.data.agentic_tasks import variant_of
from fctncalling.data.bfcl import iter_tasks, task_path
from fctncalling.data.categories import category_of
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task

Record = dict[str, Any]
Item = TypeVar("Item")


class InputError(Exception):
    """Input from outside that cannot be used; the message names file, line, field and what was
    expected.
    """


class Line(NamedTuple):
    """One record with its file and line number."""

    path: Path
    number: int  # 1 is the first
    record: Record

    def field(self, name: str, kind: type | tuple[type, ...], expected: str) -> Any:
        """Return a field of the record; InputError if it is missing or of another class."""
        if name not in self.record:
            raise self.error(name, f"expected {expected}, but there is no such field")
        value = self.record[name]
        if not isinstance(value, kind):
            raise self.error(name, f"expected {expected}, got {json.dumps(value)[:80]}")
        return value

    def error(self, field: str, text: str) -> InputError:
        """Return (not raise) the error that says `text` about a field."""
        return InputError(f'{self.path} line {self.number}: field "{field}": {text}')


def read_records(path: Path) -> Iterator[Line]:
    """Yield the records of a .jsonl or .jsonl.gz file; InputError for other lines than objects."""
    try:
        with _opened(path, "rt") as file:
            for number, text in enumerate(file, 1):
                if not text.strip():
                    continue
                try:
                    record = json.loads(text)
                except (ValueError, RecursionError) as error:
                    raise InputError(
                        f"{path} line {number}: expected a JSON object, but {error}"
                    ) from None
                if not isinstance(record, dict):
                    raise InputError(
                        f"{path} line {number}: expected a JSON object, got {type(record).__name__}"
                    )
                yield Line(path, number, record)
    except (OSError, EOFError, UnicodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write records as JSON Lines, compressed if the name ends in .gz; the file appears only
    when it is complete.
    """
    partial = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _opened(partial, "wt") as file:
            for record in records:
                file.write(json.dumps(record) + "\n")
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from None
    finally:
        partial.unlink(missing_ok=True)


def _opened(path: Path, mode: str) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, mode, encoding="utf-8")  # type: ignore[return-value]  # text modes only
    return open(path, mode, encoding="utf-8")


def with_progress_bar(
    items: Iterable[Item], description: str, unit: str, total: int | None = None
) -> Iterator[Item]:
    """Yield the items, showing a progress bar on stderr if that is a terminal and tqdm is
    installed.
    """
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            pass
        else:
            items = tqdm(items, desc=description, unit=f" {unit}s", total=total, file=sys.stderr)
    yield from items


def use_sibling_tables(path: Path) -> None:
    """Prefer the long-context tables of a task file's folder to the default ones, unless
    FCTNCALLING_LONG_CONTEXT is set.
    """
    path = task_path(path)
    tables = (path if path.is_dir() else path.parent) / "long_context.json"
    if tables.is_file():
        os.environ.setdefault("FCTNCALLING_LONG_CONTEXT", str(tables))


class TaskIndex:
    """Tasks of a folder of BFCL files; each category is read only as far as needed."""

    def __init__(self, folder: Path, self_documented: Collection[str] = ()) -> None:
        self.path = folder
        self._self_documented = (
            self_documented  # classes that a user brings: their docs may be missing
        )
        use_sibling_tables(folder)
        self._tasks: dict[str, TaskStore] = {}

    def task_of(self, line: Line) -> Task:
        """Return the task of a record's `category` and `id`; InputError if there is
        none.

        An id of format sensitivity names a task and a prompt variant; the task is returned with
        that variant.
        """
        category = line.field("category", str, "a category's name")
        entry_id = line.field("id", str, "a task's id")
        if category != format_sensitivity.CATEGORY:
            return self._named(line, category, entry_id)
        try:
            variant, task_id = format_sensitivity.parse_id(entry_id)
            task = self._named(line, category_of(task_id), task_id)
        except ValueError as error:
            raise line.error("id", str(error)) from None
        return replace(task, extra={**task.extra, "prompt_variant": variant})

    def _named(self, line: Line, category: str, entry_id: str) -> Task:
        if category not in self._tasks:
            self._tasks[category] = self._opened(line, category)
        try:
            task = self._tasks[category].get(entry_id)
        except TaskError as error:
            raise InputError(str(error)) from None
        if task is None:
            raise line.error("id", f'no task of {category} in {self.path} is called "{entry_id}"')
        return task

    def _opened(self, line: Line, category: str) -> TaskStore:
        name = re.compile(rf"(BFCL_v\d+_)?{re.escape(category)}\.jsonl?")
        files = sorted(file for file in self.path.glob("*.json*") if name.fullmatch(file.name))
        expected = self.path / f"BFCL_v4_{category}.json"
        if not files and variant_of(expected):
            files = [expected]
        if not files:
            raise line.error(
                "category", f'no task file of category "{category}": expected {expected}'
            )
        return TaskStore(files[-1], iter_tasks(files[-1], self_documented=self._self_documented))
