"""Set of the tasks that an environment draws from; a file is parsed once per process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from numpy.random import Generator

from fctncalling.data.bfcl import embedded_path, load_tasks, resolve_task_path
from fctncalling.data.types import Task

_SHOWN_IDS = 5  # ids named in an error message


class UnknownTask(KeyError):
    """Error of a task id that the task set does not have."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the message as a quoted literal


class TaskWithId(Protocol):
    """Task of any environment: it has an id."""

    @property
    def id(self) -> str:
        """Id, unique in its set."""
        ...


AnyTask = TypeVar("AnyTask", bound=TaskWithId)


class TaskList(Generic[AnyTask]):
    """List of tasks, also by id; ValueError for an empty list or a repeated id."""

    def __init__(self, tasks: Sequence[AnyTask], origin: str = "tasks") -> None:
        if not tasks:
            raise ValueError(f"{origin} holds no task: expected at least one.")
        self.tasks = tuple(tasks)
        self.origin = origin
        self._by_id = {task.id: task for task in tasks}
        if twice := [
            task_id for task_id, count in Counter(task.id for task in tasks).items() if count > 1
        ]:
            raise ValueError(
                f"{origin}: ids must be unique, but these stand twice: "
                f"{', '.join(twice[:_SHOWN_IDS])}."
            )

    def __len__(self) -> int:
        return len(self.tasks)

    def by_id(self, task_id: str) -> AnyTask:
        """Return a task by its id; raises UnknownTask, naming some that exist."""
        if task_id not in self._by_id:
            ids = ", ".join(f'"{task.id}"' for task in self.tasks[:_SHOWN_IDS])
            more = ", ..." if len(self) > _SHOWN_IDS else ""
            raise UnknownTask(
                f"no task has the id {task_id!r}: {self.origin} holds {len(self)} tasks, "
                f"{ids}{more}."
            )
        return self._by_id[task_id]

    def sample(self, generator: Generator) -> AnyTask:
        """Sample a task at random, uniformly."""
        return self.tasks[int(generator.integers(len(self)))]


class TaskSet(TaskList[Task]):
    """Tasks in BFCL's format, in order and by id; read-only, so environments can share one."""

    def __init__(self, tasks: Sequence[Task], origin: str = "tasks") -> None:
        super().__init__(tasks, origin)
        self.with_tool_paths = tuple(task for task in self.tasks if task.tool_paths)


def requested_task_id(options: Mapping[str, Any] | None) -> Any:
    """Return the task id in the options of `reset`, None if there is none; ValueError."""
    if unknown := set(options or ()) - {"task_id"}:
        raise ValueError(
            f'reset: unknown options {sorted(map(str, unknown))}: expected only "task_id".'
        )
    return (options or {}).get("task_id")


def make_task_set(
    dataset_path: str | Path | None = None,
    tasks: Sequence[Task] | TaskSet | None = None,
    self_documented: Collection[str] = (),
) -> TaskSet:
    """Make a task set of given tasks, of a file, or (neither given) the embedded one.

    A TaskSet and a file that was read before are shared: hundreds of environments start at once.
    Of the `self_documented` classes the file may lack function docs.
    """
    if tasks is not None:
        if dataset_path is not None:
            raise ValueError(
                f"dataset_path={str(dataset_path)!r} and tasks are both given: pass one of the two."
            )
        if isinstance(tasks, TaskSet):
            return tasks
        tasks = tuple(tasks)
        for task in tasks:
            if not isinstance(task, Task):
                raise TypeError(
                    f"tasks holds a {type(task).__name__}: expected fctncalling.data.types.Task; "
                    "fctncalling.data.bfcl.load_tasks reads them from a file (or pass "
                    "dataset_path)."
                )
        return TaskSet(tasks)
    path = (
        embedded_path("train") if dataset_path is None else resolve_task_path(dataset_path)
    ).resolve()
    # The siblings load_tasks looks into are part of the key: an edited answer file is read anew.
    siblings = (
        path,
        path.parent / "possible_answer" / path.name,
        path.parent / "multi_turn_func_doc",
    )
    stamps = tuple(_stamp(sibling) for sibling in siblings)
    return _loaded(path, stamps, frozenset(self_documented))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=8)
def _loaded(
    path: Path, stamps: tuple[tuple[int, int] | None, ...], self_documented: frozenset[str]
) -> TaskSet:
    return TaskSet(tuple(load_tasks(path, self_documented=self_documented)), str(path))
