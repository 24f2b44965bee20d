"""Tool instances of an episode, and the functions they offer."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.tools.snapshot import snapshot


def loaded_tool(name: str, tool: type, scenario: Any, long_context: bool) -> Any:
    """Return a fresh tool with its scenario; raises InfrastructureError where it cannot load."""
    try:
        instance = tool()
        if hasattr(
            instance, "_load_scenario"
        ):  # BFCL's MathAPI holds no state, so nothing is loaded
            private_scenario = (
                scenario if getattr(tool, "_copies_scenario", False) else snapshot(scenario, {})
            )
            instance._load_scenario(private_scenario, long_context=long_context)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise InfrastructureError(
            f'tool "{name}" cannot load its initial_config: {cause}'
        ) from error
    return instance


@lru_cache(maxsize=256)
def class_of_functions(tools: tuple[tuple[str, type], ...]) -> Mapping[str, str]:
    """Return {function: class name} of public bound methods; of several classes the last."""
    class_of: dict[str, str] = {}
    for class_name, tool in tools:
        found = (
            (name, inspect.getattr_static(tool, name))
            for name in dir(tool)
            if not name.startswith("_")
        )
        methods = [
            name
            for name, value in found
            if isinstance(value, classmethod) or inspect.isfunction(value)
        ]
        class_of.update(dict.fromkeys(methods, class_name))
    return class_of
