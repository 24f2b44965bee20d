"""Tables of docs/evidence and docs/scaling.md, from results/kept: `python docs/evidence_tables.py`.

Each stands between `<!-- table NAME -->` and `<!-- end -->`; a test holds the pages to them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

DOCS = Path(__file__).parent
PAGES = [*sorted((DOCS / "evidence").glob("*.md")), DOCS / "scaling.md"]
ROOT = DOCS.parent
KEPT = ROOT / "results/kept"
sys.path[:0] = [str(DOCS), *(str(ROOT / "benchmarks" / part) for part in ("jobs", "court", ""))]

import grades  # noqa: E402 - those of benchmarks/jobs
import report as court  # noqa: E402 - that of benchmarks/court
import speedrun  # noqa: E402
from measured_tables import TABLES as MEASURED  # noqa: E402
from measured_tables import markdown_table  # noqa: E402
from real_model_tables import TABLES as REAL_MODEL  # noqa: E402

FORGED = KEPT / "forge"
SINGLE_TURN = ("simple_python", "multiple", "parallel", "irrelevance")
MEASURES = {  # of one turn: what the page calls it -> what the report does
    "required parameters": "required parameters",
    "questions that end in ?": "questions that end in ?",
    "words of a question, mean": "words of a question",
    "arguments left unsaid": "arguments left unsaid",
}
TURN_MEASURES = ("turns per task", "calls per turn", "provenance", "words of a turn")
RATES = ("greedy", "greedy_strict", "sampled", "sampled_strict")


ROLES = {
    "team": "both roles learn",
    "frozen_planner": "the planner is frozen",
    "frozen_caller": "the caller is frozen",
    "alone": "one agent that knows all",
}
"""Variant of the team's job -> what the page calls it."""


def main_job(run: str) -> dict[str, list[tuple[str, str]]]:
    """Return a recorded run's rows: the RATES of each part of the tasks before and after, in %."""
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
    """Return the page's rows of the default run, and the control's last."""
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
    return markdown_table(heads, list(cells))


def tool_jobs_table() -> str:
    """Return a row a job: success before, and after of each seed."""
    rows = []
    for job in ("calculator", "python_math"):
        runs = _read(f"jobs/{job}.json")
        seconds = sorted(run["cpu_seconds"] for run in runs)
        curves = [_ends([run[kind] for run in runs]) for kind in ("greedy", "sampled")]
        rows.append([job, *curves[0], *curves[1], f"{seconds[0]:.0f} to {seconds[-1]:.0f}"])
    heads = ["job", "greedy, before", "after", "sampled, before", "after", "CPU seconds"]
    return markdown_table(heads, rows)


def _ends(curves: Sequence[Sequence[Any]]) -> list[str]:
    """Return the common start of some curves, and the end of each, in %."""
    after = ", ".join(f"{100 * curve[-1][1]:.1f}" for curve in curves)
    return [f"{100 * curves[0][0][1]:.1f} %", f"{after} %"]


def clarify_table() -> str:
    """Return a row a price of a question: means over its seeds."""
    names = ("success", "asked_needed", "asked_not_needed")
    rows = []
    for price, runs in _grouped("jobs/clarify.json", "price"):
        changes = ([fmean(100 * run[name][at] for run in runs) for at in (0, 1)] for name in names)
        cells = (f"{before:.1f} -> {after:.1f} %" for before, after in changes)
        rows.append([f"{price:g}", str(len(runs)), *cells])
    heads = ["price", "seeds", "solved", "asked where a value is missing", "where none is"]
    return markdown_table(heads, rows)


def team_table() -> str:
    """Return a row a variant of the team's job: success before, and after of each seed."""
    rows = []
    for variant, runs in _grouped("jobs/team.json", "variant"):
        after = ", ".join(f"{100 * run['greedy'][1]:.0f}" for run in runs)
        rows.append([ROLES[variant], f"{100 * runs[0]['greedy'][0]:.0f} %", f"{after} %"])
    return markdown_table(["held-out success, greedy", "before", "after, by seed"], rows)


def _grouped(file: str, field: str) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    for value, runs in groupby(_read(file), key=itemgetter(field)):
        yield value, list(runs)


def forged_table() -> str:
    """Return a row a measure of tasks of one turn: forged / official ones, by category."""
    report = forge_report()
    rows = []
    for title, measure in MEASURES.items():
        pairs = [report[category].get(measure, ("-", "-")) for category in SINGLE_TURN]
        first = (tuple(cell.split(",")[0] for cell in pair) for pair in pairs)
        rows.append([title, *(" / ".join(pair) if pair[0] != "-" else "-" for pair in first)])
    told = discriminator()
    rows.append(["AUC of the discriminator", *(told[category] for category in SINGLE_TURN)])
    return markdown_table(["forged / official", *SINGLE_TURN], rows)


def forged_turns_table() -> str:
    """Return a row a measure of tasks of several turns: forged ones, official ones."""
    own = forge_report()["multi_turn_base"]
    rows = [[measure, *(cell.split(" (")[0] for cell in own[measure])] for measure in TURN_MEASURES]
    rows.append(["AUC of the discriminator", discriminator()["multi_turn_base"], ""])
    return markdown_table(["multi_turn_base", "forged", "official"], rows)


def forge_report() -> dict[str, dict[str, tuple[str, str]]]:
    """Return the recorded report of `forge`: category -> measure -> forged, official."""
    text = (FORGED / "forged.jsonl.report.md").read_text("utf-8")
    categories = re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.M | re.DOTALL)
    row = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \|$", re.M)
    return {name: {m[1]: (m[2], m[3]) for m in row.finditer(own)} for name, own in categories}


def discriminator() -> dict[str, str]:
    """Return category -> AUC of texts, from the recorded output of benchmarks/jobs/likeness.py."""
    text = (FORGED / "likeness.txt").read_text("utf-8")
    return dict(re.findall(r"^(\w+) +AUC of texts .*?\) +([\d.]+)", text, re.M))


def _read(file: str) -> Any:
    return json.loads((KEPT / file).read_text("utf-8"))


TABLES: dict[str, Callable[[], str]] = {
    **REAL_MODEL,
    **MEASURED,
    "main_job": main_job_table,
    "tool_jobs": tool_jobs_table,
    "clarify": clarify_table,
    "team": team_table,
    "forged": forged_table,
    "forged_turns": forged_turns_table,
    "court": lambda: court.report(court.read_runs(KEPT / "court/runs.jsonl")),
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
