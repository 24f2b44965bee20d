"""Former import paths: modules that moved go on to be importable, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Former package or module -> where it is since version 0.2. The longest match counts.
MOVED = {
    **{
        f"fctncalling.{name}": f"fctncalling.lab.{name}"
        for name in (
            "doctor",
            "embedded",
            "error_analysis",
            "forge",
            "integrations",
            "memory_plan",
            "viewer",
        )
    },
    **{
        f"fctncalling.doctor.{name}": f"fctncalling.training.model_checks.{name}"
        for name in ("conversations", "finding", "template_findings")
    },
    "fctncalling.doctor.token_findings": "fctncalling.training.model_checks.template_findings",
    "fctncalling.cli.doctor": "fctncalling.lab.doctor.command",
    "fctncalling.cli.forge": "fctncalling.lab.forge.command",
    "fctncalling.cli.serve_mcp": "fctncalling.lab.integrations.command",
    "fctncalling.cli.view": "fctncalling.lab.viewer.command",
    "fctncalling.cli.why": "fctncalling.lab.error_analysis",
    "fctncalling.cli.why.recorded_answers": "fctncalling.lab.error_analysis.command",
    "fctncalling.cli.why.report_text": "fctncalling.lab.error_analysis.why_text",
    "fctncalling.cli.shared.progress_bar": "fctncalling.progress_bar",
    "fctncalling.training.ray": "fctncalling.training.rollouts.ray",
    "fctncalling.memory_plan.command": "fctncalling.lab.memory_plan.printed_plan",
}


def present_name(former: str) -> str | None:
    """Return where a module is today, None if it did not move."""
    head, tail = former, ""
    while head:
        if head in MOVED:
            return MOVED[head] + tail
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    return None


class MovedModuleFinder:
    """Finder of modules by their former names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec that loads the moved module; None for every other name."""
        if not fullname.startswith("fctncalling.") or not (present := present_name(fullname)):
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
    """Serve former import paths, once a process."""
    if not any(isinstance(finder, MovedModuleFinder) for finder in sys.meta_path):
        finder: Any = MovedModuleFinder()
        sys.meta_path.insert(0, finder)  # before a moved package finds its files twice
