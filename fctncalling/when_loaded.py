"""An import hook that does something behind the import of one module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class WhenLoaded(MetaPathFinder):
    """Finds a module as everyone does, and calls `then` with it when it is loaded; once."""

    def __init__(self, name: str, then: Callable[[ModuleType], object]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's own spec, whose loader then reports; None for every other module."""
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        loader: Any = spec.loader if spec else None
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
            self._then(module)

        loader.exec_module = exec_module
        return spec
