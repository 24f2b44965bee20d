"""Figures of a benchmark: printed with their bounds, and written by `--json FILE`.

docs/evidence_tables.py makes the tables of the pages from the files in results/kept/performance.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

LIBRARIES = ("numpy", "torch", "transformers")


class Figure(NamedTuple):
    """Measured figure, as the page names it, and its bounds."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool:
        """Whether the figure is within its bounds."""
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    @property
    def bound(self) -> str:
        """Bound in words, with "missed" if the value is beyond it; empty without a bound."""
        bounds = {"at least": self.at_least, "at most": self.at_most}
        words = [f"{side} {bound:g}" for side, bound in bounds.items() if bound is not None]
        return ", ".join(words if self.met else [*words, "missed"])


def three_digits(value: float) -> str:
    """Format a value with three digits, and a small one with two."""
    if abs(value) < 0.1:
        return f"{value:.2g}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def benchmark_parser(description: str | None) -> argparse.ArgumentParser:
    """Make the parser of a benchmark, with the flag `--json FILE`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", type=Path, help="write the figures, the machine and the libraries to this file"
    )
    return parser


def write_figures(file: Path | None, **figures: Any) -> None:
    """Write figures, machine and library versions as JSON; with file None write no file."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"machine": machine(), **figures}, indent=1, ensure_ascii=False)
        file.write_text(f"{text}\n", encoding="utf-8")


def report(figures: Sequence[Figure], file: Path | None, **more: Any) -> int:
    """Print and write figures; return the exit code: 1 if a bound is missed, else 0."""
    for figure in figures:
        print(f"{figure.name}: {three_digits(figure.value)}  {figure.bound}", flush=True)
    write_figures(file, figures=[figure._asdict() for figure in figures], **more)
    return 0 if all(figure.met for figure in figures) else 1


def machine() -> dict[str, str]:
    """Return the processor's name and the versions of Python and of libraries."""
    names = {"CPU": _processor(), "Python": platform.python_version()}
    for library in LIBRARIES:
        try:
            names[library] = version(library)
        except PackageNotFoundError:
            continue
    return names


def _processor() -> str:
    """Return the processor's name, from /proc where there is one."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.split(": ")[1] for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
