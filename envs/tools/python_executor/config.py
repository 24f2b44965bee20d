"""Settings of the executor, each checked and enforced.

A wish that cannot be met is an error: a limit nobody enforces is worse than none.
"""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
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
    "max_tools_per_generation": 1 << 30,
}
_OPTIONAL = ("num_executors", "max_tools_per_generation")  # may be None
_LISTS = ("allowed_modules", "restricted_functions")
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
    _check_value("timeout_s", timeout_s, where)


def _check_value(name: str, value: Any, where: str, key: str = "") -> None:
    """Raise ConfigError for a value that a field cannot have; `key`: what the error calls it."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "timeout_s":
        right = number and 0 < value <= MAX_TIMEOUT_S  # false for nan
        expected = f"seconds above 0 and at most {MAX_TIMEOUT_S}"
    elif name in _LARGEST:
        right = number and isinstance(value, int) and 1 <= value <= _LARGEST[name]
        right = right or (value is None and name in _OPTIONAL)
        expected = f"a whole number from 1 to {_LARGEST[name]}"
    elif name in _LISTS:
        right = (
            isinstance(value, Collection)
            and not isinstance(value, str | Mapping)
            and all(isinstance(item, str) for item in value)
        )
        expected = "a list of names"
    elif name == "description":
        right, expected = isinstance(value, str), "a text"
    else:
        right, expected = isinstance(value, bool), "true or false"
    if not right:
        raise _wrong_value(where, key or name, value, expected)


def _wrong_value(where: str, key: str, value: Any, expected: str) -> ConfigError:
    return ConfigError(f"{where}: {key} is {value!r:.80}; expected {expected}")


def check_seed(seed: Any) -> None:
    """Raise ConfigError for a seed that is no whole number."""
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise ConfigError(f"run: seed is {seed!r}; expected a whole number or None")


def validate_config(
    config: ExecutorConfig, where: str, keys: Mapping[str, str] | None = None
) -> ExecutorConfig:
    """Check a configuration; return it with notes on its settings.

    Raises ConfigError, also for unknown modules and functions. `keys`: where its fields stood.
    """
    for field in fields(config):
        if field.name != "notes":
            _check_value(
                field.name, getattr(config, field.name), where, (keys or {}).get(field.name, "")
            )
    lists: dict[str, Any] = {name: tuple(getattr(config, name)) for name in _LISTS}
    config = replace(config, **lists)
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
    parts: Any = source
    if not isinstance(source, Mapping):
        where = str(source)
        try:
            parts = json.loads(Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{where}: cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise ConfigError(f"{where}: is not JSON ({error})") from error
    _require_known_keys(parts, "", ("tools", "execution", "security"), where)
    found = _tool_fields(parts["tools"], where) if "tools" in parts else {}
    for part in ("execution", "security"):
        found |= _fields(parts.get(part, {}), part, where)
    values = {field: value for field, (_, value) in found.items()}
    keys = {field: key for field, (key, _) in found.items()}
    return validate_config(ExecutorConfig(**values), where, keys)


# part -> key -> field of ExecutorConfig; the keys beyond OpenRLHF's own are ours: memory_mb,
# allow_degraded. The calculator is bounded by construction: it has no time or length to limit.
_FIELDS = {
    TOOL_NAME: {
        "name": "",
        **{key: key for key in ("description", "enabled", "max_output_length", "memory_mb")},
        "timeout_seconds": "timeout_s",
    },
    CALCULATOR: {"name": "", "enabled": "calculator"},
    "execution": {
        key: key for key in ("max_tools_per_generation", "parallel_execution", "num_executors")
    },
    "security": {key: key for key in (*_LISTS, "allow_degraded")},
}
_Fields = dict[str, tuple[str, Any]]  # field -> the key it stood under, and its value


def _tool_fields(tools: Any, where: str) -> _Fields:
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        raise _wrong_value(where, "tools", tools, "a list of tools")
    found: _Fields = {"enabled": ("tools", False), "calculator": ("tools", False)}
    names = list[str]()
    for position, tool in enumerate(tools):
        key = f"tools[{position}]"
        name = tool.get("name") if isinstance(tool, Mapping) else None
        is_calculator = name == CALCULATOR
        given = _fields(tool, key, where, of=CALCULATOR if is_calculator else TOOL_NAME)
        if name not in KNOWN_TOOLS:
            raise _wrong_value(where, f"{key}.name", name, f"one of {', '.join(KNOWN_TOOLS)}")
        if name in names:
            raise _wrong_value(where, key, name, "each tool once")
        names.append(name)
        found |= {"calculator" if is_calculator else "enabled": (key, True), **given}
    return found


def _fields(part: Any, key: str, where: str, *, of: str = "") -> _Fields:
    """Return the fields of a part under `key`, which has the keys of the part `of`."""
    names = _FIELDS[of or key]
    _require_known_keys(part, key, tuple(names), where)
    return {names[name]: (f"{key}.{name}", part[name]) for name in part if names[name]}


def _require_known_keys(part: Any, key: str, names: tuple[str, ...], where: str) -> None:
    if not isinstance(part, Mapping):
        raise _wrong_value(where, key or "the whole", part, "a JSON object")
    for name in part:
        if name not in names:
            full = f"{key}.{name}" if key else name
            raise ConfigError(f"{where}: unknown key {full!r}; known here: {', '.join(names)}")
