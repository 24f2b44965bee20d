"""Python classes: the public methods are the functions, as signatures and docstrings say."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fctncalling.envs.named_tools import add_working_folder_to_path, import_object
from fctncalling.envs.tools.box.callables import ToolDefinitionError, as_tool
from fctncalling.lab.own_api.api import OwnApi, SpecificationError
from fctncalling.lab.own_api.specifications.collect import CollectedFunctions
from fctncalling.lab.own_api.specifications.tool_list import add_tool


def api_of_python_class(spec: str, scenarios: Path | None = None) -> OwnApi:
    """Return the API of "module:Class"; SpecificationError where it cannot be had."""
    add_working_folder_to_path()
    try:
        tool = import_object(spec)
    except ImportError as error:
        raise SpecificationError(f"{spec}: cannot be imported: {error}") from None
    except SystemExit as error:
        raise SpecificationError(
            f"{spec}: cannot be imported: it ends the program (exit code {error}): put what runs "
            'under if __name__ == "__main__"'
        ) from None
    if not isinstance(tool, type):
        raise SpecificationError(f"{spec}: is {tool!r:.60}: expected a class")
    try:
        instance = tool()
    except (Exception, SystemExit) as error:  # whatever the class does when it is made
        raise SpecificationError(
            f"{spec}: cannot be made without arguments ({type(error).__name__}: {error}): give its "
            "__init__ defaults, and what varies in _load_scenario(scenario)"
        ) from None
    collected = CollectedFunctions(spec)
    for name in _methods(tool):
        try:
            doc = as_tool(getattr(instance, name), name=name, timeout_s=None).doc
        except ToolDefinitionError as error:
            raise SpecificationError(f"{spec}: {error}") from None
        add_tool(collected, name, doc.description, doc.parameters, f"{tool.__name__}.{name}")
    return collected.api(tool.__name__, tool_class=spec, scenarios=read_scenarios(scenarios, tool))


def read_scenarios(path: Path | None, tool: type) -> tuple[Mapping[str, Any], ...]:
    """Return the scenarios of a JSON file: an object of named ones, a list, or a single one.

    Without a file none: the class is as it is made.
    """
    if path is None:
        return ()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecificationError(f"--scenarios {path}: cannot be read: {error}") from None
    if not hasattr(tool, "_load_scenario"):
        raise SpecificationError(
            f"--scenarios {path}: {tool.__name__} has no method _load_scenario(scenario) to take "
            "them"
        )
    values = list(found.values()) if isinstance(found, dict) else found
    if isinstance(found, dict) and not all(isinstance(each, dict) and each for each in values):
        values = [found]  # one scenario, not an object of several
    if not isinstance(values, list) or not all(isinstance(each, dict) for each in values):
        raise SpecificationError(f"--scenarios {path}: expected objects, found {found!r:.40}")
    return tuple(values)


def _methods(tool: type) -> list[str]:
    """Return the names of the public methods in the order they are written."""
    found: dict[str, None] = {}
    for each in reversed(tool.__mro__):
        for name, value in vars(each).items():
            is_method = inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)
            if is_method and not name.startswith("_"):
                found[name] = None
    return list(found)
