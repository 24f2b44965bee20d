"""Former import paths of modules and names: they go on to work, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


@cache
def moved_paths(kind: str) -> dict[str, str]:
    """Return the paths that moved since version 0.3: of "modules" or of "names" in modules."""
    from json import load

    with open(__file__.removesuffix("py") + "json", encoding="utf-8") as file:
        moved: dict[str, dict[str, str]] = load(file)
    return moved[kind]


def current_module_name(former: str) -> str | None:
    """Return the current name of a module by its former one, None if it did not move."""
    head, tail, moved = former, "", moved_paths("modules")
    while head:
        if head in moved:
            return moved[head] + tail
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    return None


def _former_attribute(module: str, name: str) -> Any:
    """Return what a module gives by a former name: the `__getattr__` of modules with such."""
    former = f"{module}.{name}"
    if not (present := moved_paths("names").get(former)):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    text = f"{former} is now {present}; the former name goes with version 0.5"
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    home, _, now = present.rpartition(".")
    return getattr(import_module(home), now)


class MovedModuleFinder:
    """Moved-module finder, for imports of modules, and names in modules, by their former ones."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the spec that loads a module that moved or has former names; None for others."""
        if not fullname.startswith("fctncalling."):
            return None
        if any(former.rpartition(".")[0] == fullname for former in moved_paths("names")):
            return self._spec_with_former_names(fullname, path, target)
        if not (present := current_module_name(fullname)):
            return None
        loader: Any = _MovedModuleLoader(present)  # importlib.abc would load what few users need
        return ModuleSpec(fullname, loader, is_package=True)

    def _spec_with_former_names(self, fullname: str, *where: Any) -> ModuleSpec | None:
        others: list[Any] = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(fullname, *where) for finder in others)
        spec: ModuleSpec | None = next(filter(None, specs), None)
        if spec is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_with_former_names(module: Any) -> None:
                module.__getattr__ = partial(_former_attribute, fullname)
                execute(module)

            loader.exec_module = execute_with_former_names
        return spec


class _MovedModuleLoader:
    def __init__(self, present: str) -> None:
        self.present = present

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the moved module itself under its former name: one module, one set of classes."""
        former = module.__name__
        warnings.warn(
            f"{former} is now {self.present}; the former path goes with version 0.5",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[former] = import_module(self.present)


def keep_former_paths() -> None:
    """Keep former import paths working, for this process."""
    if not any(isinstance(finder, MovedModuleFinder) for finder in sys.meta_path):
        finder: Any = MovedModuleFinder()
        sys.meta_path.insert(0, finder)  # before a moved package finds its files twice
