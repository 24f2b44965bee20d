"""`score` compared with the official evaluator: the same trees, the same accuracies.

The official package goes into a virtual environment of its own, as `checkers.py` tells; an unpacked
wheel of its last V3 release (`pip download --no-deps bfcl-eval==2025.7.9`) adds what V3 makes of
the same accuracies:
  python benchmarks/peers/official_scores.py --official /tmp/official/bin/python \\
      --official_v3 /tmp/v3 --data_dir data/bfcl --tables ../shared/bfcl/verdicts

Compared are every header of a score file, the ids and kinds of its failures, and every cell of the
leaderboard's tables but those that need the official list of models (link, cost, organization,
license). Exits 1 if an accuracy differs; kinds of failure are told only.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from figures import benchmark_parser, write_figures
from official_trees import SCORED, Tables, write_trees

from fctncalling.data.format_sensitivity import CATEGORY as FORMAT_SENSITIVITY

HERE = Path(__file__).parent
TABLES = ("overall", "non_live", "live", "multi_turn", "agentic", "format_sensitivity")
OF_THEIR_MODELS = ("Model Link", "Total Cost ($)", "Organization", "License")
V3_NAMES = {"simple_python": "simple", "simple_java": "java", "simple_javascript": "javascript"}
V3_COLUMNS = {
    ("overall", "Overall Acc"): "overall",
    ("non_live", "Non_Live Overall Acc"): "non_live",
    ("live", "Live Overall Acc"): "live",
    ("multi_turn", "Multi Turn Overall Acc"): "multi_turn",
}
SIDES = ("official", "ours")
Difference = tuple[str, Any, Any]
"""(what was compared, official, ours); also where both agree."""


def evaluate(official: str, data_dir: Path, work: Path) -> dict[str, Any]:
    """Score the tree with both; return our JSON report."""
    results, ours = work / "result", work / "ours"
    theirs = [
        official,
        str(HERE / "official_checkers.py"),
        "evaluate",
        str(results),
        str(work / "official"),
    ]
    _run([*theirs, *SCORED, FORMAT_SENSITIVITY])
    own = [
        sys.executable,
        str(HERE.parents[1] / "evaluate_fctncalling.py"),
        "score",
        "--partial",
        "--json",
    ]
    own += ["--input", str(results), "--score_dir", str(ours), "--data_dir", str(data_dir)]
    report: dict[str, Any] = json.loads(_run(own))
    return report


def headers(work: Path) -> Iterator[Difference]:
    """Yield the headers of score files, with their failing tasks."""
    for path in sorted((work / "official").rglob("*_score.json")):
        name = path.relative_to(work / "official")
        theirs, own = (_lines(work / side / name) for side in SIDES)
        yield f"{name}: header", theirs[0], own[0]
        yield (
            f"{name}: failing tasks",
            [entry["id"] for entry in theirs[1:]],
            [entry["id"] for entry in own[1:]],
        )


def kinds(work: Path) -> Iterator[Difference]:
    """Yield the kind of every failure."""
    for path in sorted((work / "official").rglob("*_score.json")):
        name = path.relative_to(work / "official")
        theirs, own = (
            {entry["id"]: _kind(entry) for entry in _lines(work / side / name)[1:]}
            for side in SIDES
        )
        yield from (
            (f"{name}: {entry_id}", kind, own.get(entry_id)) for entry_id, kind in theirs.items()
        )


def cells(work: Path) -> Iterator[Difference]:
    """Yield every cell of the leaderboard's tables, by model."""
    for table in TABLES:
        theirs, own = (_rows(work / side / f"data_{table}.csv") for side in SIDES)
        yield f"{table}: models", sorted(theirs), sorted(own)
        ranked = Counter(map(_ranked_by, theirs.values()))
        for model, row in theirs.items():
            for column in row:
                tied = (
                    column == "Rank" and ranked[_ranked_by(row)] > 1
                )  # in no order that means anything
                if column not in OF_THEIR_MODELS and not tied:
                    yield f"{table}: {model}: {column}", row[column], own.get(model, {}).get(column)


def version_3(
    official: str, package: Path, work: Path, report: dict[str, Any]
) -> Iterator[Difference]:
    """Yield version 3's means, made by its release from the official accuracies."""
    scores = work / "official_v3"
    complete = [model for model, row in report.items() if set(SCORED) <= set(row["categories"])]
    for model in complete:
        for category in SCORED:
            [path] = (work / "official" / model).rglob(f"BFCL_v4_{category}_score.json")
            name = f"BFCL_v3_{V3_NAMES.get(category, category)}_score.json"
            (scores / model).mkdir(parents=True, exist_ok=True)
            (scores / model / name).write_text(json.dumps(_lines(path)[0]) + "\n", encoding="utf-8")
    command = [official, str(HERE / "official_checkers.py"), "aggregate", str(scores)]
    _run(command, {**os.environ, "PYTHONPATH": str(package)})
    for (table, column), name in V3_COLUMNS.items():
        rows = _rows(scores / f"data_{table}.csv")
        for model in complete:
            yield f"V3 {table}: {model}", rows[model][column], report[model]["v3"][name]["shown"]


def compared(title: str, pairs: Iterator[Difference]) -> tuple[int, int]:
    """Print and return the numbers of pairs and of unequal ones; print the first of these."""
    counts: Counter[bool] = Counter()
    for what, theirs, own in pairs:
        counts[theirs == own] += 1
        if theirs != own and counts[False] <= 10:
            print(f"  {what}: official {_short(theirs, own)}, ours {_short(own, theirs)}")
    print(f"{title}: {counts.total()} compared, {counts[False]} differ")
    return counts.total(), counts[False]


def _short(value: Any, counterpart: Any) -> str:
    if isinstance(value, list) and isinstance(counterpart, list):
        value = [item for item in value if item not in counterpart]
    if isinstance(value, dict) and isinstance(counterpart, dict):
        value = {key: item for key, item in value.items() if counterpart.get(key) != item}
    return str(value)[:300]


def _ranked_by(row: dict[str, str]) -> str:
    """Return the cell that a table is sorted by."""
    return next(cell for column, cell in row.items() if column not in ("Rank", "Model"))


def _kind(entry: dict[str, Any]) -> Any:
    return entry["error"]["error_type"] if isinstance(entry["error"], dict) else entry["error_type"]


def _lines(path: Path) -> list[dict[str, Any]]:
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if path.exists()
        else [{}]
    )


def _rows(path: Path) -> dict[str, dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return {row["Model"]: row for row in csv.DictReader(file)}


def _run(command: list[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"{command[:3]} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def main() -> int:
    """Write trees, score them twice, compare; return 1 if an accuracy differs."""
    parser = benchmark_parser(__doc__)
    parser.add_argument(
        "--official", required=True, help="Python of the official package's virtual environment"
    )
    parser.add_argument(
        "--official_v3", type=Path, help="folder of an unpacked wheel of the last V3 release"
    )
    parser.add_argument("--data_dir", type=Path, required=True, help="folder of BFCL task files")
    parser.add_argument(
        "--tables",
        type=Path,
        required=True,
        help="folder of recorded verdicts: <category>.jsonl.gz",
    )
    parser.add_argument(
        "--seeds", type=int, default=3, help="how many models of each form; default: %(default)s"
    )
    parser.add_argument("--keep", type=Path, help="work in this folder, and keep it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = args.keep or Path(folder)
        write_trees(args.data_dir, Tables(args.tables), work / "result", args.seeds)
        report = evaluate(args.official, args.data_dir, work)
        counts = {
            title: compared(title, pairs)
            for title, pairs in (
                ("score files: headers and failing tasks", headers(work)),
                ("leaderboard cells", cells(work)),
            )
        }
        compared("kinds of failure", kinds(work))
        if args.official_v3:
            pairs = version_3(args.official, args.official_v3, work, report)
            counts["V3 means"] = compared("V3 means", pairs)
    write_figures(args.json, counts=counts)
    return 1 if any(differ for _, differ in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
