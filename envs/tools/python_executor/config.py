"""Settings of the executor, each checked and enforced.

A wish that cannot be met is an error: a limit nobody enforces is worse than none.
"""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# cannot be called here anyway
PYTHON_2_BUILTINS = ("file", "raw_input", "execfile", "reload", "unicode", "xrange")
THREAD_MODULES = frozenset({"threading", "_thread", "concurrent"})
MAX_EXECUTORS = 32
MAX_TIMEOUT_S = 86_400  # a day
_LARGEST = {
    "max_output_length": 1 << 28,
    "memory_mb": 1 << 22,
    "raw_output_bytes": 1 << 30,
    "max_code_bytes": 1 << 30,
    "num_executors": 4096,
}
# What can be imported and then do nothing under confinement, by what it needs.
CANNOT_WORK = {
    "processes": (
        "subprocess",
        "multiprocessing",
        "pty",
        "webbrowser",
        "concurrent.futures.process",
    ),
    "a network": tuple(
        "socket socketserver ssl asyncio ftplib smtplib imaplib poplib http.client http.server "
        "urllib.request xmlrpc requests httpx urllib3 aiohttp".split()
    ),
    "files": ("tempfile", "shutil", "glob", "fileinput", "dbm", "shelve", "mailbox"),
    "a terminal or a display": ("tkinter", "curses", "termios", "readline"),
    "the project, which snippets must not see": ("fctncalling",),
}
SEED_MODULES = tuple(
    "math random datetime time re json collections itertools functools numpy".split()
)
SEED_RESTRICTED = ("eval", "exec", "compile", "open", "file", "__import__", "input")


class ConfigError(ValueError):
    """Error in the executor's configuration.

    The message names the key, what was found and what is expected.
    """


@dataclass(frozen=True)
class ExecutorConfig:
    """Configuration of a PythonExecutor. Times in seconds, memory in MiB, lengths in characters."""

    enabled: bool = True  # False: every call is denied
    # what a model is told of the tool
    description: str = "Execute Python code and return the output"
    timeout_s: float = 10.0  # wall clock of one call, from its child's start
    # characters kept of standard output, and as many of standard error
    max_output_length: int = 1000
    num_executors: int | None = None  # calls running at once; None: one a core, at most 32
    parallel_execution: bool = True  # False: one call at a time, whatever num_executors says
    # calls of one assistant message that are run; None: 32
    max_tools_per_generation: int | None = None
    calculator: bool = True  # whether the calculator is offered too
    allowed_modules: tuple[str, ...] = SEED_MODULES
    restricted_functions: tuple[str, ...] = SEED_RESTRICTED
    memory_mb: int = 512  # address space of one call beyond the warm interpreter's
    raw_output_bytes: int = 1 << 20  # a call that writes more is killed
    max_code_bytes: int = 16 << 20  # a longer snippet is denied
    allow_degraded: bool = False  # True: run although a layer of the confinement is missing
    notes: tuple[str, ...] = ()  # what a reader of the configuration should know

    @property
    def max_running(self) -> int:
        """Largest number of calls running at a time."""
        if not self.parallel_execution:
            return 1
        return self.num_executors or min(MAX_EXECUTORS, available_cores())

    @property
    def allows_threads(self) -> bool:
        """Whether an allowed module starts threads, so that snippets may."""
        return any(name.split(".")[0] in THREAD_MODULES for name in self.allowed_modules)

    def with_overrides(self, **keywords: Any) -> ExecutorConfig:
        """Return a copy with the keywords that are not None.

        Checked.
        """
        values = {name: value for name, value in keywords.items() if value is not None}
        return validate_config(replace(self, **values), "PythonExecutor")


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def check_timeout(timeout_s: Any, where: str) -> None:
    """Raise ConfigError for an invalid timeout."""
    number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not (number and 0 < timeout_s <= MAX_TIMEOUT_S):  # false for nan
        raise ConfigError(
            f"{where}: timeout_s is {timeout_s!r}; expected seconds above 0 and at most "
            f"{MAX_TIMEOUT_S}"
        )


def check_seed(seed: Any) -> None:
    """Raise ConfigError for a seed that is no whole number."""
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise ConfigError(f"run: seed is {seed!r}; expected a whole number or None")


def validate_config(config: ExecutorConfig, where: str) -> ExecutorConfig:
    """Check a configuration; return it with notes on its settings.

    Raises ConfigError, also for unknown modules and functions.
    """
    check_timeout(config.timeout_s, where)
    for name, largest in _LARGEST.items():
        value = getattr(config, name)
        if name == "num_executors" and value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
            raise ConfigError(
                f"{where}: {name} is {value!r}; expected a whole number from 1 to {largest}"
            )
    for name in ("allowed_modules", "restricted_functions"):
        names = getattr(config, name)
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{where}: {name} is {names!r:.80}; expected a list of names")
    config = replace(
        config,
        allowed_modules=tuple(config.allowed_modules),
        restricted_functions=tuple(config.restricted_functions),
    )
    _check_modules(config.allowed_modules, where)
    notes = []
    for name in config.restricted_functions:
        if name in PYTHON_2_BUILTINS:
            notes.append(f"{name}() does not exist in Python 3: nothing to restrict")
        elif not hasattr(builtins, name):
            raise ConfigError(
                f"{where}: security.restricted_functions: {name!r} is no builtin function"
            )
    return replace(config, notes=tuple(notes))


def _check_modules(modules: tuple[str, ...], where: str) -> None:
    """Raise ConfigError for a module that is missing, or cannot be used by a snippet."""
    for module in modules:
        if not _importable(module):
            raise ConfigError(
                f"{where}: security.allowed_modules: there is no module {module!r} to import here"
            )
        for needs, names in CANNOT_WORK.items():
            if any(f"{module}.".startswith(f"{name}.") for name in names):
                raise ConfigError(
                    f"{where}: security.allowed_modules: {module!r} cannot work: it needs {needs}, "
                    "and a snippet has none; leave it out"
                )


def _importable(module: str) -> bool:
    if not all(part.isidentifier() for part in module.split(".")) or module == "__main__":
        return False
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


TOOL_NAME = "python_executor"
CALCULATOR = "calculator"
KNOWN_TOOLS = (TOOL_NAME, CALCULATOR)


def load_config(source: Mapping[str, Any] | str | os.PathLike[str]) -> ExecutorConfig:
    """Load a configuration from a dict or JSON file in OpenRLHF's form; raises ConfigError.

    It has three parts: `tools` (what is offered, with its time and output limits), `execution` (how
    many at once) and `security` (which modules and builtins). An unknown key is an error.
    """
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
    """Reader of one configuration; errors call it `where`."""

    def __init__(self, where: str) -> None:
        self.where = where

    def config(self, source: Any) -> ExecutorConfig:
        self._known(source, "", ("tools", "execution", "security"))
        fields: dict[str, Any] = self._tools(source["tools"]) if "tools" in source else {}
        fields |= self._part(source.get("execution", {}), "execution", _EXECUTION_KEYS)
        fields |= self._part(source.get("security", {}), "security", _SECURITY_KEYS)
        return validate_config(ExecutorConfig(**fields), self.where)

    def _tools(self, tools: Any) -> dict[str, Any]:
        if not isinstance(tools, Sequence) or isinstance(tools, str):
            raise self._error("tools", tools, "a list of tools")
        values: dict[str, dict[str, Any]] = {}
        for position, tool in enumerate(tools):
            key = f"tools[{position}]"
            name = tool.get("name") if isinstance(tool, Mapping) else None
            # The calculator is bounded by construction: it has no time or length to limit.
            fields = self._part(tool, key, _CALCULATOR_KEYS if name == CALCULATOR else _TOOL_KEYS)
            if name not in KNOWN_TOOLS:
                raise self._error(f"{key}.name", name, f"one of {', '.join(KNOWN_TOOLS)}")
            if name in values:
                raise self._error(key, name, "each tool once")
            values[name] = {"calculator" if name == CALCULATOR else "enabled": True, **fields}
        return {
            "enabled": False,
            "calculator": False,
            **values.get(TOOL_NAME, {}),
            **values.get(CALCULATOR, {}),
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
