"""Classes that tasks name by their import paths, imported only where the user allows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib import import_module

from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task


def named_by_path(
    tasks: Iterable[Task], origin: str, *, allowed: bool, specified: Collection[str] = ()
) -> list[tuple[str, str, str]]:
    """Return (name, "module:Class", place) of each class that a task names by its path and the user
    did not specify.

    Raises TaskError for the first one where it is not allowed. Imports nothing.
    """
    found = []
    for task in tasks:
        for name, path in task.tool_paths.items():
            place = f'{origin} (id "{task.id}"): involved_classes: "{path}"'
            if name not in specified:
                found.append((name, path, place))
            if found and not allowed:
                raise TaskError(
                    f"{place} names a class by its path, and importing it would run that module's "
                    "code. If you trust "
                    "the file, pass allow_task_tools=True (--allow_task_tools); or give the class "
                    "yourself: "
                    f'tools={{"{name}": {name}}}'
                )
    return found


def imported_tool(path: str, place: str) -> type:
    """Return the class at "module:Class"; TaskError, naming the place, where there is none."""
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:  # whatever the module's own code raises
        raise TaskError(
            f"{place} cannot be imported ({type(error).__name__}: {error}): expected a module on "
            "Python's path; "
            "set PYTHONPATH to its folder"
        ) from error
    if not isinstance(found, type):
        raise TaskError(f"{place} is {found!r:.100}: expected a class")
    return found
