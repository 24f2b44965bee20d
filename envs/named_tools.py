"""Classes that tasks name by their import paths, imported only if the user allows it."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Collection, Iterable
from importlib import import_module
from typing import Any

from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task
from fctncalling.envs.tools import mcp_tool_class


def tool_paths_of_tasks(
    tasks: Iterable[Task], origin: str, *, allowed: bool, specified: Collection[str] = ()
) -> list[tuple[str, str, str]]:
    """List the classes that tasks name by path: (name, "module:Class", place).

    Classes that the user `specified` are left out. Raises TaskError for the first path if none is
    `allowed`. Does not import anything.
    """
    classes = []
    for task in tasks:
        for name, path in task.tool_paths.items():
            place = f'{origin} (id "{task.id}"): involved_classes: "{path}"'
            if name not in specified:
                classes.append((name, path, place))
            if classes and not allowed:
                raise TaskError(
                    f"{place} names a class by its path, and importing it would run that module's "
                    "code. If you trust the file, pass allow_task_tools=True (--allow_task_tools); "
                    f'or give the class yourself: tools={{"{name}": {name}}}'
                )
    return classes


def add_working_folder_to_path() -> None:
    """Append the working folder to the import path, after all installed packages."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)


def import_object(target: str) -> Any:
    """Import the object "module:name".

    Raises ImportError with the cause and its cure.
    """
    module, _, name = target.partition(":")
    if module == "mcp" and name:
        return mcp_tool_class(target)
    if not module or not name:
        raise ImportError(f'"{target}" names nothing in a module: expected MODULE:NAME')
    try:
        target_object: Any = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ImportError(f"{module} imports {error.name}, which is not installed") from error
        raise ImportError(
            f"there is no module {error.name}: expected MODULE:NAME, with the module in the "
            "working folder or in one that PYTHONPATH names"
        ) from error
    except Exception as error:  # whatever the module's own code raises
        raise ImportError(f"{module} ends with {type(error).__name__}: {error}") from error
    for part in name.split("."):
        if not hasattr(target_object, part):
            near = difflib.get_close_matches(part, dir(target_object), n=1)
            hint = f"; is {near[0]} meant?" if near else ""
            raise ImportError(f"{getattr(target_object, '__name__', module)} has no {part}{hint}")
        target_object = getattr(target_object, part)
    return target_object


def import_tool_class(path: str, place: str) -> type:
    """Import the tool class "module:Class"; raises TaskError, naming the place."""
    try:
        tool_class = import_object(path)
    except ImportError as error:
        raise TaskError(f"{place} cannot be imported: {error}") from error
    if not isinstance(tool_class, type):
        raise TaskError(f"{place} is {tool_class!r:.100}: expected a class")
    return tool_class
