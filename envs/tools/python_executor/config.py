"""ExecutorConfig: the executor's settings, each checked and enforced.

A wish that cannot be met is an error: a limit nobody enforces is worse than none.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
from dataclasses import dataclass, replace
from typing import Any

PYTHON_2_BUILTINS = (
    "file",
    "raw_input",
    "execfile",
    "reload",
    "unicode",
    "xrange",
)  # cannot be called here anyway
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
    "a network": (
        *("socket", "socketserver", "ssl", "asyncio", "ftplib", "smtplib", "imaplib", "poplib"),
        *(
            "http.client",
            "http.server",
            "urllib.request",
            "xmlrpc",
            "requests",
            "httpx",
            "urllib3",
            "aiohttp",
        ),
    ),
    "files": ("tempfile", "shutil", "glob", "fileinput", "dbm", "shelve", "mailbox"),
    "a terminal or a display": ("tkinter", "curses", "termios", "readline"),
    "the project, which snippets must not see": ("fctncalling",),
}
SEED_MODULES = (
    "math",
    "random",
    "datetime",
    "time",
    "re",
    "json",
    "collections",
    "itertools",
    "functools",
    "numpy",
)
SEED_RESTRICTED = ("eval", "exec", "compile", "open", "file", "__import__", "input")


class ConfigError(ValueError):
    """Invalid tool configuration.

    The message names the key, what was found and what is expected.
    """


@dataclass(frozen=True)
class ExecutorConfig:
    """Settings of a PythonExecutor. Times in seconds, memory in MiB, lengths in characters."""

    enabled: bool = True  # False: every call is denied
    description: str = (
        "Execute Python code and return the output"  # what a model is told of the tool
    )
    timeout_s: float = 10.0  # wall clock of one call, from its child's start
    max_output_length: int = (
        1000  # characters kept of standard output, and as many of standard error
    )
    num_executors: int | None = None  # calls running at once; None: one a core, at most 32
    parallel_execution: bool = True  # False: one call at a time, whatever num_executors says
    max_tools_per_generation: int | None = (
        None  # calls of one assistant message that are run; None: 32
    )
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
        """How many calls run at once."""
        if not self.parallel_execution:
            return 1
        return self.num_executors or min(MAX_EXECUTORS, available_cores())

    @property
    def threads(self) -> bool:
        """Whether a snippet may start threads: only where an allowed module is about them."""
        return any(name.split(".")[0] in THREAD_MODULES for name in self.allowed_modules)

    def with_keywords(self, **keywords: Any) -> ExecutorConfig:
        """Return a copy in which every keyword that is not None replaces the configured value.

        Checked.
        """
        values = {name: value for name, value in keywords.items() if value is not None}
        return checked(replace(self, **values), "PythonExecutor")


def available_cores() -> int:
    """Return the cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def check_timeout(timeout_s: Any, where: str) -> None:
    """Raise ConfigError for an invalid time limit."""
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


def checked(config: ExecutorConfig, where: str) -> ExecutorConfig:
    """Return the validated configuration with its notes.

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
        if isinstance(names, str) or not all(isinstance(each, str) for each in names):
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
    """Raise ConfigError for a module that is missing, or of no use where a snippet runs."""
    for module in modules:
        if not _importable(module):
            raise ConfigError(
                f"{where}: security.allowed_modules: there is no module {module!r} to import here"
            )
        for needs, names in CANNOT_WORK.items():
            if any(f"{module}.".startswith(f"{name}.") for name in names):
                raise ConfigError(
                    f"{where}: security.allowed_modules: {module!r} cannot work: it needs {needs}, "
                    "and a "
                    "snippet has none; leave it out"
                )


def _importable(module: str) -> bool:
    if not all(part.isidentifier() for part in module.split(".")) or module == "__main__":
        return False
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
