"""Former import paths: modules that moved go on to be importable, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


@cache
def moved_modules() -> dict[str, str]:
    """Return the modules that moved since version 0.2: former name -> present name."""
    from json import load

    with open(__file__.removesuffix("py") + "json", encoding="utf-8") as file:
        moved: dict[str, str] = load(file)
    return moved


def current_module_name(former: str) -> str | None:
    """Return the current name of a module by its former one, None if it did not move."""
    head, tail, moved = former, "", moved_modules()
    while head:
        if head in moved:
            return moved[head] + tail
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    return None


class MovedModuleFinder:
    """Import finder of moved modules by their former names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the spec that loads a moved module; None for every other name."""
        if not fullname.startswith("fctncalling.") or not (
            present := current_module_name(fullname)
        ):
            return None
        loader: Any = _MovedModuleLoader(present)  # importlib.abc would load what few users need
        return ModuleSpec(fullname, loader, is_package=True)


class _MovedModuleLoader:
    def __init__(self, present: str) -> None:
        self.present = present

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the moved module itself under its former name: one module, one set of classes."""
        former = module.__name__
        warnings.warn(
            f"{former} is now {self.present}; the former path goes with version 0.4",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[former] = import_module(self.present)


def keep_former_paths() -> None:
    """Keep former import paths working, for this process."""
    if not any(isinstance(finder, MovedModuleFinder) for finder in sys.meta_path):
        finder: Any = MovedModuleFinder()
        sys.meta_path.insert(0, finder)  # before a moved package finds its files twice
