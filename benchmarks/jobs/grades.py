"""Grades of values and estimators at points of training: the table of docs/evidence/court.md.

    fctncalling credit RUN --update 10 --json main_10_1.json    # of --keep_checkpoints 9
    python benchmarks/jobs/grades.py --keep main_*_*.json

keeps of each `--json` file, named JOB_UPDATE_SEED.json, what the page says. Then, or without
--keep, it prints the table of what is kept: means over seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

KEPT = Path(__file__).parents[2] / "results" / "kept" / "credit" / "grades.jsonl"
TRUTH = ("success", "significant", "reliability_of_values", "reliability_of_advantages")
VALUES = {
    "siblings": "siblings",
    "state": "same tool state",
    "critic": "the run's critic",
    "critic_last": "fitted critic, last layer",
    "critic_head": "the trainer's fit",
    "critic_mistakes": "critic told of mistakes",
    "critic_truth": "critic that reads the truth",
}
ESTIMATORS = (
    *("TPPO", "TPPO_lambda_0", "TPPO_leave_one_out", "TPPO_state", "POAD", "NTPO", "APPO", "GRPO"),
    "shuffled",
)
GRADES = {
    "values": ("explained_variance", "between", "within"),
    "estimators": ("sign", "sign_where_it_speaks", "cosine", "speaks"),
}
Kept = dict[str, Any]
"""A checkpoint's grades: job, update, seed, truth, coverage, values, estimators."""


def main() -> None:
    """Store grades, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, nargs="+", default=[], metavar="FILE")
    options = parser.parse_args()
    if options.keep:
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        lines = sorted(map(entry, options.keep), key=_place)
        KEPT.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    print("\n".join(table(read(KEPT))))


def entry(path: Path) -> Kept:
    """Return the parts of a `--json` file that the page needs."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    job, update, seed = path.stem.split("_")
    grades = {
        kind: {name: {key: round(row[key], 3) for key in keys} for name, row in saved[kind].items()}
        for kind, keys in GRADES.items()
    }
    truth = {key: round(saved["truth"][key], 3) for key in (*TRUTH, "standard_error_p90")}
    coverage = {key: round(value, 3) for key, value in saved["coverage"]["by_turn"].items()}
    coverage["all"] = round(saved["coverage"]["all"], 3)
    head = {"job": job, "update": int(update), "seed": int(seed)}
    return {**head, "truth": truth, "coverage": coverage, **grades}


def read(file: Path) -> list[Kept]:
    """Read the stored grades."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def table(runs: Sequence[Kept]) -> Iterator[str]:
    """Yield the lines of the table: a column for each job and update, means over seeds."""
    columns = [list(own) for _, own in groupby(runs, key=lambda run: _place(run)[:2])]

    def row(title: str, cell: Callable[..., str], kind: str, *keys: str) -> str:
        return f"| {' | '.join([title, *(cell(own, kind, *keys) for own in columns)])} |"

    heads = (f"{own[0]['job']}, {own[0]['update']}" for own in columns)
    yield f"| | {' | '.join(heads)} |"
    yield "|---" * (len(columns) + 1) + "|"
    turns = sorted({key for run in runs for key in run["coverage"]} - {"all"}, key=int)
    yield row("solved/actions that matter", _percents, "truth", *TRUTH[:2])
    yield row("split-half reliability of V/of A", _numbers, "truth", *TRUTH[2:])
    yield row("states that match", _percents, "coverage", "all")
    yield row("... by turn", _percents, "coverage", *turns)
    for name, title in VALUES.items():
        if all(name in run["values"] for run in runs):
            yield row(f"V: {title}", _graded, "values", name)
    for name in ESTIMATORS:
        yield row(f"A: {name}", _graded, "estimators", name)


def _place(run: Kept) -> tuple[bool, int, int]:
    return run["job"] != "main", run["update"], run["seed"]


def _means(own: Sequence[Kept], kind: str, keys: Sequence[str]) -> list[float]:
    return [fmean(run[kind][key] for run in own if key in run[kind]) for key in keys]


def _percents(own: Sequence[Kept], kind: str, *keys: str) -> str:
    shared = [key for key in keys if any(key in run[kind] for run in own)]
    return "/".join(f"{100 * value:.0f}%" for value in _means(own, kind, shared))


def _numbers(own: Sequence[Kept], kind: str, *keys: str) -> str:
    return "/".join(f"{value:.2f}" for value in _means(own, kind, keys))


def _graded(own: Sequence[Kept], kind: str, name: str) -> str:
    grades = (fmean(run[kind][name][key] for run in own) for key in GRADES[kind][:3])
    return "/".join(f"{grade:.2f}" for grade in grades)


if __name__ == "__main__":
    main()
