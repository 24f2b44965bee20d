"""Tool configuration file: the JSON form of OpenRLHF's tool-use module, every key enforced.

It has three parts: `tools` (what is offered, with its time and output limits), `execution` (how
many at once) and `security` (which modules and builtins). An unknown key is an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.envs.tools.python_executor.config import (
    MAX_TIMEOUT_S,
    ConfigError,
    ExecutorConfig,
    checked,
)

TOOL_NAME = "python_executor"
CALCULATOR = "calculator"
KNOWN_TOOLS = (TOOL_NAME, CALCULATOR)


def load_config(source: Mapping[str, Any] | str | os.PathLike[str]) -> ExecutorConfig:
    """Return the configuration of a dict or a JSON file in OpenRLHF's form; raises ConfigError."""
    where = "tool configuration"
    if not isinstance(source, Mapping):
        where = str(source)
        try:
            source = json.loads(Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{where}: cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise ConfigError(f"{where}: is not JSON ({error})") from error
    return _ConfigReader(where).config(source)


# key -> (field of ExecutorConfig, kind); the keys beyond OpenRLHF's own are ours: memory_mb,
# allow_degraded
_TOOL_KEYS = {
    "name": ("", "name"),
    "description": ("description", "text"),
    "enabled": ("enabled", "flag"),
    "max_output_length": ("max_output_length", "count"),
    "timeout_seconds": ("timeout_s", "seconds"),
    "memory_mb": ("memory_mb", "count"),
}
_CALCULATOR_KEYS = {"name": ("", "name"), "enabled": ("calculator", "flag")}
_EXECUTION_KEYS = {
    "max_tools_per_generation": ("max_tools_per_generation", "count"),
    "parallel_execution": ("parallel_execution", "flag"),
    "num_executors": ("num_executors", "count"),
}
_SECURITY_KEYS = {
    "allowed_modules": ("allowed_modules", "names"),
    "restricted_functions": ("restricted_functions", "names"),
    "allow_degraded": ("allow_degraded", "flag"),
}


class _ConfigReader:
    """Reads one configuration; `where` is what its errors call it."""

    def __init__(self, where: str) -> None:
        self.where = where

    def config(self, source: Any) -> ExecutorConfig:
        self._known(source, "", ("tools", "execution", "security"))
        fields: dict[str, Any] = self._tools(source["tools"]) if "tools" in source else {}
        fields |= self._part(source.get("execution", {}), "execution", _EXECUTION_KEYS)
        fields |= self._part(source.get("security", {}), "security", _SECURITY_KEYS)
        return checked(ExecutorConfig(**fields), self.where)

    def _tools(self, tools: Any) -> dict[str, Any]:
        if not isinstance(tools, Sequence) or isinstance(tools, str):
            raise self._error("tools", tools, "a list of tools")
        found: dict[str, dict[str, Any]] = {}
        for position, tool in enumerate(tools):
            key = f"tools[{position}]"
            name = tool.get("name") if isinstance(tool, Mapping) else None
            # The calculator is bounded by construction: it has no time or length to limit.
            fields = self._part(tool, key, _CALCULATOR_KEYS if name == CALCULATOR else _TOOL_KEYS)
            if name not in KNOWN_TOOLS:
                raise self._error(f"{key}.name", name, f"one of {', '.join(KNOWN_TOOLS)}")
            if name in found:
                raise self._error(key, name, "each tool once")
            found[name] = {"calculator" if name == CALCULATOR else "enabled": True, **fields}
        return {
            "enabled": False,
            "calculator": False,
            **found.get(TOOL_NAME, {}),
            **found.get(CALCULATOR, {}),
        }

    def _part(self, part: Any, key: str, keys: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
        self._known(part, key, tuple(keys))
        fields = {}
        for name, value in part.items():
            field, kind = keys[name]
            self._kind(f"{key}.{name}", value, kind)
            if field:
                fields[field] = tuple(value) if kind == "names" else value
        return fields

    def _known(self, part: Any, key: str, names: tuple[str, ...]) -> None:
        if not isinstance(part, Mapping):
            raise self._error(key or "the whole", part, "a JSON object")
        for name in part:
            if name not in names:
                full = f"{key}.{name}" if key else name
                raise ConfigError(
                    f"{self.where}: unknown key {full!r}; known here: {', '.join(names)}"
                )

    def _kind(self, key: str, value: Any, kind: str) -> None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        right, expected = {
            "name": (isinstance(value, str), "a tool's name"),
            "text": (isinstance(value, str), "a text"),
            "flag": (isinstance(value, bool), "true or false"),
            "count": (number and isinstance(value, int) and value > 0, "a positive whole number"),
            "seconds": (
                number and 0 < value <= MAX_TIMEOUT_S,
                f"seconds above 0 and at most {MAX_TIMEOUT_S}",
            ),
            "names": (
                isinstance(value, Sequence)
                and not isinstance(value, str)
                and all(isinstance(n, str) for n in value),
                "a list of names",
            ),
        }[kind]
        if not right:
            raise self._error(key, value, expected)

    def _error(self, key: str, value: Any, expected: str) -> ConfigError:
        return ConfigError(f"{self.where}: {key} is {value!r:.80}; expected {expected}")
