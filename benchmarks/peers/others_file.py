"""Loader of a file of another project without the project's dependencies.

What it imports is real where Python or the caller has it (torch, say); any other name is stood in
for by one that does nothing: a decorator gives its function back, a base class is empty. A function
that needs more than arithmetic so fails, and does not answer wrongly.
"""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


class _Names(type):
    """Class with more stand-in classes as attributes."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing

    def __getitem__(cls, item: Any) -> Any:
        return cls


class _Nothing(metaclass=_Names):
    """Stand-in for a decorator, a base class or an annotation."""

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        if cls is _Nothing and len(arguments) == 1 and callable(arguments[0]):
            return arguments[0]
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __bool__(self) -> bool:
        return False

    def __init_subclass__(cls, **named: Any) -> None:
        pass

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class _NoModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing


def loaded(root: str, file: str, real: tuple[str, ...] = ()) -> Any:
    """Load a file of a project; packages named `real` are imported."""
    path = Path(root) / file
    if not path.is_file():
        raise SystemExit(f"error: {path}: there is no such file: expected the project's sources")

    def own_import(name: str, *how: Any) -> ModuleType:
        is_real = name.partition(".")[0] in (*sys.stdlib_module_names, *real)
        return builtins.__import__(name, *how) if is_real else _NoModule(name)

    module = ModuleType(path.stem)
    sys.modules[path.stem] = module  # where a dataclass looks for its module
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": own_import}
    code = compile(path.read_text("utf-8"), str(path), "exec", dont_inherit=True)
    exec(code, vars(module))
    return module
