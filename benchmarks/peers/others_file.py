"""A file of another project, run as it is where its dependencies are not installed.

What it imports and nobody finds is stood in for by a name that does nothing: a decorator gives its
function back, a base class is empty. What is there (torch, the project's own files) is the real
thing, so a function that needs more than arithmetic fails, and does not answer wrongly.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


class _Anything(type):
    """Class of a name that is nowhere: whatever is asked of it is such a name again."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing

    def __getitem__(cls, item: Any) -> Any:
        return cls

    __truediv__ = __getitem__


class _Nothing(metaclass=_Anything):
    def __new__(cls, *given: Any, **named: Any) -> Any:
        is_decorated = cls is _Nothing and len(given) == 1 and callable(given[0])
        return given[0] if is_decorated and not named else super().__new__(cls)

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def __call__(self, *given: Any, **named: Any) -> Any:
        return given[0] if len(given) == 1 and callable(given[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class _NoModule(ModuleType):
    __path__: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Last finder: it finds every module, but not what Python lacks on other systems."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return _NoModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def loaded(root: str, file: str) -> ModuleType:
    """Return a file of a project, the project's folder on the path."""
    path = Path(root) / file
    if not path.is_file():
        raise SystemExit(f"error: {path}: there is no such file: expected the project's sources")
    sys.path.insert(0, root)
    stand_ins = _StandIns()
    sys.meta_path.append(stand_ins)
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    finally:
        sys.meta_path.remove(stand_ins)
    return module
