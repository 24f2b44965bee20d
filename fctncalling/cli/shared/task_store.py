"""The tasks of one file by id, in bounded memory however long the file is."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task

if TYPE_CHECKING:
    import sqlite3

HELD = 2048
"""How many tasks are held in memory: all of every BFCL category."""


class TaskStore:
    """Lazy store of a file's tasks by id.

    The newest in memory, older ones in a temporary file.

    Answers in the order of their tasks cost one pass and no look-up on disk, those in any other
    order stay possible.
    """

    def __init__(self, path: Path, tasks: Iterator[Task], held: int = HELD) -> None:
        self._path = path
        self._unread = tasks
        self._held = held
        self._newest: dict[str, Task] = {}
        self._older: sqlite3.Connection | None = None

    def get(self, task_id: str) -> Task | None:
        """Return the task of an id, None if the file has none.

        Raises TaskError for an unreadable task.
        """
        found = self._cached(task_id)
        while found is None and (task := next(self._unread, None)) is not None:
            self._keep(task)
            found = task if task.id == task_id else None
        return found

    def _cached(self, task_id: str) -> Task | None:
        if task_id in self._newest or self._older is None:
            return self._newest.get(task_id)
        row = self._older.execute("SELECT task FROM tasks WHERE id = ?", (task_id,)).fetchone()
        return (
            pickle.loads(row[0]) if row else None
        )  # written by this process, into a file without a name

    def _keep(self, task: Task) -> None:
        if self._cached(task.id) is not None:
            raise TaskError(
                f'{self._path}: id "{task.id}": expected ids to be unique, but it stands twice'
            )
        self._newest[task.id] = task
        if len(self._newest) > self._held:
            oldest = self._newest.pop(next(iter(self._newest)))
            self._on_disk().execute(
                "INSERT INTO tasks VALUES (?, ?)", (oldest.id, pickle.dumps(oldest))
            )

    def _on_disk(self) -> sqlite3.Connection:
        if self._older is None:
            import sqlite3

            self._older = sqlite3.connect(
                "", isolation_level=None
            )  # "": a file that vanishes with the connection
            self._older.execute("CREATE TABLE tasks (id TEXT PRIMARY KEY, task BLOB) WITHOUT ROWID")
            self._older.execute("BEGIN")
        return self._older
