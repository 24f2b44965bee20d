"""Tables of docs/evidence, from kept files: `python docs/evidence_tables.py`.

Each stands between `<!-- table NAME -->` and `<!-- end -->`; a test holds the pages to them.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PAGES = sorted((DOCS / "evidence").glob("*.md"))
ROOT = DOCS.parent
KEPT = ROOT / "results/kept"
sys.path[:0] = [str(ROOT / "benchmarks/jobs"), str(ROOT / "benchmarks")]

import grades  # noqa: E402 - those of benchmarks/jobs
import speedrun  # noqa: E402

RATES = ("greedy", "greedy_strict", "sampled", "sampled_strict")


def main_job(run: str) -> dict[str, list[tuple[str, str]]]:
    """Return a kept run's rows: of each part of the tasks the RATES before and after, in %."""
    evaluation = _read(f"main/{run}/evaluation.json")
    before, after = evaluation["before"], evaluation["after"]
    parts = {
        "all": (before, after),
        "all multi-turn": (before["multi_turn"], after["multi_turn"]),
        **{
            name: (rates, after["categories"][name]) for name, rates in before["categories"].items()
        },
    }
    return {
        part: [(f"{100 * old[rate]:.1f}", f"{100 * new[rate]:.1f}") for rate in RATES]
        for part, (old, new) in parts.items()
    }


def main_job_table() -> str:
    """Return the rows of the default run that the page shows, and the control's last."""
    rows = [
        ("all", "seed1", "all"),
        ("multi-turn", "seed1", "all multi-turn"),
        ("`multi_turn_miss_func`", "seed1", "multi_turn_miss_func"),
        ("all, seed 2", "seed2", "all"),
        ("all, seed 3", "seed3", "all"),
        ("all, control (`--permute_advantages`)", "control1", "all"),
    ]
    heads = ["seed 1, in %", *(rate.replace("_", ", ") for rate in RATES)]
    cells = (
        [title, *(f"{old} -> {new}" for old, new in main_job(run)[part])]
        for title, run, part in rows
    )
    return _table(heads, cells)


def tool_jobs_table() -> str:
    """Return a row a job: success before, and after of each seed."""
    rows = []
    for job in ("calculator", "python_math"):
        runs = _read(f"jobs/{job}.json")
        seconds = sorted(run["cpu_seconds"] for run in runs)
        curves = [_ends([run[kind] for run in runs]) for kind in ("greedy", "sampled")]
        rows.append([job, *curves[0], *curves[1], f"{seconds[0]:.0f} to {seconds[-1]:.0f}"])
    heads = ["job", "greedy, before", "after", "sampled, before", "after", "CPU seconds"]
    return _table(heads, rows)


def _ends(curves: Sequence[Sequence[Any]]) -> list[str]:
    """Return the common start of some curves, and the end of each, in %."""
    after = ", ".join(f"{100 * curve[-1][1]:.1f}" for curve in curves)
    return [f"{100 * curves[0][0][1]:.1f} %", f"{after} %"]


def _read(file: str) -> Any:
    return json.loads((KEPT / file).read_text("utf-8"))


def _table(heads: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    head, *lines = (f"| {' | '.join(line)} |" for line in (heads, *rows))
    return "\n".join([head, "|---" * len(heads) + "|", *lines])


TABLES: dict[str, Callable[[], str]] = {
    **runpy.run_path(str(DOCS / "real_model_tables.py"))["TABLES"],
    "main_job": main_job_table,
    "tool_jobs": tool_jobs_table,
    "grades": lambda: "\n".join(grades.table(grades.read(grades.KEPT))),
    "speedrun": lambda: speedrun.table(speedrun.read_runs(speedrun.KEPT)),
}
"""Name on a page -> what makes the table."""


def with_tables(text: str) -> str:
    """Return a page with every table made anew."""

    def table(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n\n{TABLES[match[1]]()}\n\n<!-- end -->"

    return re.sub(r"<!-- table (\w+) -->.*?<!-- end -->", table, text, flags=re.DOTALL)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text("utf-8")), encoding="utf-8")
