"""The task that a record answers, by category and id, never another one of the same id."""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

from fctncalling.cli.shared.jsonl_records import InputError, SourceRecord
from fctncalling.data.agentic_tasks import MEMORY, WEB_SEARCH, find_agentic_variant
from fctncalling.data.bfcl import embedded_path, iter_tasks, resolve_task_path
from fctncalling.data.categories import category_of_id
from fctncalling.data.errors import TaskError
from fctncalling.data.format_sensitivity import CATEGORY as FORMAT_SENSITIVITY
from fctncalling.data.format_sensitivity import load_format_sensitivity_tasks, parse_variant_id
from fctncalling.data.paths import official_data_folder
from fctncalling.data.types import Task


def iter_category_tasks(
    path: Path, category: str, self_documented: Collection[str] = ()
) -> Iterator[Task]:
    """Iterate over a category's tasks of a folder or file, in constant memory; InputError.

    Those of format sensitivity are read at once.

    Of the `self_documented` classes, which a user brings, function docs may be missing.
    """
    try:
        if not path.is_dir() and path.exists():
            tasks = iter_tasks(path, self_documented=self_documented)
            yield from (task for task in tasks if task.category == category)
            return
        file = category_file(path, category)
        if file is None:
            raise InputError(
                f"{path / f'BFCL_v4_{category}.json'}: there is no task file of category "
                f"{category}. {_instead(path)}"
            )
        if category == FORMAT_SENSITIVITY:
            yield from load_format_sensitivity_tasks(path)
        else:
            yield from iter_tasks(file, self_documented=self_documented)
    except TaskError as error:
        raise InputError(str(error)) from None


def category_file(folder: Path, category: str) -> Path | None:
    """Return the file in a folder with a category's tasks; None if there is none."""
    path = folder / f"BFCL_v4_{category}.json"
    if path.is_file() or find_agentic_variant(path) is not None:
        return path
    name = re.compile(rf"(BFCL_v\d+_)?{re.escape(category)}\.jsonl?")
    others = sorted(file for file in folder.glob("*.json*") if name.fullmatch(file.name))
    return others[-1] if others else None


def _instead(folder: Path) -> str:
    """Return the cure for a missing category file: the available categories or the import."""
    stems = [re.sub(r"BFCL_v\d+_", "", path.stem) for path in sorted(folder.glob("BFCL_v*.json"))]
    variants = {"memory": MEMORY, "web_search": WEB_SEARCH}
    if names := [name for stem in stems for name in variants.get(stem, (stem,))]:
        return f"Expected one of {', '.join(names)}."
    return (
        "Import the official data with `fctncalling import-bfcl`, or name a folder of task "
        "files, or a file, by --dataset_path."
    )


def result_folder_name(model: str) -> str:
    """Return the name of a model's result folder in BFCL's tree."""
    name = model.replace("/", "_").replace("\\", "_")
    return "_" if name in ("", ".", "..") else name


def category_folder(category: str) -> Path:
    """Return a category's folder in BFCL's tree, relative to the model's."""
    if category == FORMAT_SENSITIVITY:
        return Path(FORMAT_SENSITIVITY)
    if category.startswith("memory"):
        return Path("agentic", "memory", category.removeprefix("memory_"))
    groups = {"live": "live", "multi_turn": "multi_turn", "web_search": "agentic"}
    return Path(next((groups[name] for name in groups if category.startswith(name)), "non_live"))


HELD = 2048
"""How many tasks are held in memory: all of every BFCL category."""
IN_MEMORY = 1 << 16  # bytes of older tasks, from which on they lie on disk


class TaskStore:
    """Store of a file's tasks by id, read lazily: the newest in memory, older ones on disk.

    Answers in the order of their tasks cost one pass and no look-up on disk, those in any other
    order stay possible.
    """

    def __init__(self, path: Path, tasks: Iterator[Task], held: int = HELD) -> None:
        self._path = path
        self._unread = tasks
        self._held = held
        self._newest: dict[str, Task] = {}
        self._places: dict[str, int] = {}  # of older tasks, in a file without a name
        self._older = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115

    def get(self, task_id: str) -> Task | None:
        """Get the task of an id, None if the file has none.

        Raises TaskError for an unreadable task.
        """
        while not self._has(task_id) and (task := next(self._unread, None)) is not None:
            self._keep(task)
        if task_id not in self._places:
            return self._newest.get(task_id)
        self._older.seek(self._places[task_id])
        older: Task = pickle.load(self._older)  # written by this process
        return older

    def _has(self, task_id: str) -> bool:
        return task_id in self._newest or task_id in self._places

    def _keep(self, task: Task) -> None:
        if self._has(task.id):
            raise TaskError(
                f'{self._path}: id "{task.id}": expected ids to be unique, but it stands twice'
            )
        self._newest[task.id] = task
        if len(self._newest) > self._held:
            oldest = self._newest.pop(next(iter(self._newest)))
            self._older.seek(0, os.SEEK_END)
            self._places[oldest.id] = self._older.tell()
            pickle.dump(oldest, self._older)


class TaskNotFoundError(InputError):
    """Error of a task that was not found, of a record's category and id."""


class TaskIndex:
    """Index of the tasks of one file, or of a folder of BFCL files, read as far as needed."""

    def __init__(self, path: Path, self_documented: Collection[str] = ()) -> None:
        self.path = path
        # classes that a user brings: their docs may be missing
        self._self_documented = self_documented
        use_sibling_long_context_tables(path)
        self._stores: dict[Path, TaskStore] = {}

    def find_task(self, line: SourceRecord) -> Task:
        """Find the task of a record's category and id; TaskNotFoundError if there is none.

        An id of format sensitivity names a task and a prompt variant; the task is returned with
        that variant.
        """
        category = line.field("category", str, "a category's name")
        entry_id = line.field("id", str, "a task's id")
        if category != FORMAT_SENSITIVITY:
            return self._named(line, category, entry_id)
        try:
            variant, task_id = parse_variant_id(entry_id)
            task = self._named(line, category_of_id(task_id), task_id)
        except ValueError as error:
            raise line.error("id", str(error)) from None
        return replace(task, extra={**task.extra, "prompt_variant": variant})

    def _named(self, line: SourceRecord, category: str, entry_id: str) -> Task:
        file = category_file(self.path, category) if self.path.is_dir() else self.path
        if file is None or not self.path.exists():
            expected = self.path / f"BFCL_v4_{category}.json"
            text = f'no task file of category "{category}": expected {expected}'
            raise TaskNotFoundError(str(line.error("category", text)))
        if file not in self._stores:
            tasks = iter_tasks(file, self_documented=self._self_documented)
            self._stores[file] = TaskStore(file, tasks)
        try:
            task = self._stores[file].get(entry_id)
        except TaskError as error:
            raise InputError(str(error)) from None
        if task is None or (self.path.is_file() and task.category != category):
            text = f'no task of {category} in {self.path} is called "{entry_id}"'
            raise TaskNotFoundError(str(line.error("id", text)))
        return task


class TaskFinder:
    """Finder of the tasks that records answer, in the given files and folders.

    Where none are given, in the file that the record names, or among the official and the embedded
    tasks.
    """

    def __init__(
        self, paths: Path | Sequence[Path] | None = None, self_documented: Collection[str] = ()
    ) -> None:
        given = [paths] if isinstance(paths, Path) else list(paths or ())
        self._self_documented = self_documented
        self._indexes: dict[Path, TaskIndex] = {}
        self._given = [self._index(path) for path in given]
        # for messages: where the last task was found
        self.path = given[0] if given else official_data_folder()

    def find_task(self, line: SourceRecord) -> Task:
        """Find the task of a record with "category" and "id".

        InputError where there is none, or only another one with the same id.
        """
        reason = ""
        for index in self._given or map(self._index, _usual_paths(line)):
            try:
                task = index.find_task(line)
            except TaskNotFoundError as error:
                reason = reason or str(error)
                continue
            difference = task_difference(line.record, task)
            if not difference:
                self.path = index.path
                return task
            reason = str(
                line.error("id", f"{index.path} has another task of this id: {difference}")
            )
        named = line.record.get("dataset_path")
        hint = f", {named} in that run" if isinstance(named, str) else ""
        raise InputError(
            f"{reason}. Name the tasks that were answered{hint} by --dataset_path: a task file, or "
            "a folder of BFCL's"
        )

    def _index(self, path: Path) -> TaskIndex:
        if path not in self._indexes:
            self._indexes[path] = TaskIndex(path, self._self_documented)
        return self._indexes[path]


def _usual_paths(line: SourceRecord) -> Iterator[Path]:
    if recorded := recorded_task_path(line):
        yield recorded
        return
    yield official_data_folder()
    with suppress(TaskError):  # a package may come without the embedded tasks
        yield from map(embedded_path, ("held_out", "train"))


def recorded_task_path(record: SourceRecord) -> Path | None:
    """Return the recorded task path: of the file a record was played with, where it is here.

    Seen from the working folder, or from the record's.
    """
    named = record.record.get("dataset_path")
    if not isinstance(named, str) or not named:
        return None
    places = (Path(named), record.path.parent / named)
    return next((path for path in places if path.exists()), None)


def task_difference(record: Mapping[str, Any], task: Task) -> str:
    """Return the difference of a task from a record's: truth or words; "" if unknown."""
    if "ground_truth" in record and _plain(record["ground_truth"]) != _plain(task.ground_truth):
        return "its ground truth is not the record's"
    asked, said = _first_words(task.question[:1]), _first_words([record.get("messages")])
    if asked and said and asked != said:
        return "its first message is not the record's"
    return ""


def _plain(truth: Any) -> str:
    """Return a truth as text; interfaces of tool calls have no dots in names."""
    return json.dumps(truth, sort_keys=True, default=str).replace(".", "_")


def _first_words(turns: Sequence[Any]) -> str:
    """Return the user's last text in the opening messages."""
    for message in reversed(turns[0] if turns and isinstance(turns[0], list) else []):
        if isinstance(message, dict) and message.get("role") == "user":
            words = message.get("content")
            return words if isinstance(words, str) else ""
    return ""


def use_sibling_long_context_tables(task_path: Path) -> None:
    """Use the sibling long-context tables of a task file, unless others are set."""
    path = resolve_task_path(task_path)
    tables = (path if path.is_dir() else path.parent) / "long_context.json"
    if tables.is_file():
        os.environ.setdefault("FCTNCALLING_LONG_CONTEXT", str(tables))
