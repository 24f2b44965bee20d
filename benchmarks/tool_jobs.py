"""Learning of the jobs with tools in mid-generation: many seeds of one training command.

`python benchmarks/tool_jobs.py --job calculator --seeds 10` does what `train_fctncalling.py
--env_name calculator` does once a seed, prints a table and writes runs.json, report.md and a figure
into --output. Finished runs are kept: the same command again goes on where the last one was
stopped. `--set lora_r=8` sets more flags of the training command. `--keep` also writes the runs to
results/kept/jobs, from which docs/evidence_tables.py makes the table of docs/evidence/results.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from tool_jobs_report import Run, draw, report

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "results/kept/jobs"


def main() -> None:
    """Run the missing runs, then report on all."""
    options = parsed()
    runs: list[Run] = []
    for algorithm in options.algorithms.split(","):
        for seed in range(1, options.seeds + 1):
            runs.append(Run.read(play(algorithm, seed, options), algorithm, seed))
            print(
                f"{algorithm} seed {seed}: {runs[-1].greedy[0][1]:.3f} -> "
                f"{runs[-1].greedy[-1][1]:.3f}",
                flush=True,
            )
    write_runs(runs, options.output, KEPT / f"{options.job}.json" if options.keep else None)
    text = report(runs)
    (options.output / "report.md").write_text(text, encoding="utf-8")
    print(text)
    draw(runs, options.output / f"{options.job}.png")


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--job", choices=("calculator", "python_math"), default="calculator")
    parser.add_argument(
        "--algorithms", default="TPPO", help="names, parted by commas (default TPPO)"
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--output", type=Path, help="folder (default: results/tool_jobs/JOB)")
    parser.add_argument(
        "--set",
        nargs="*",
        default=[],
        metavar="NAME=VALUE",
        help="more flags of the training command",
    )
    parser.add_argument("--keep", action="store_true", help="write results/kept/jobs/JOB.json")
    options = parser.parse_args()
    options.output = options.output or ROOT / "results" / "tool_jobs" / options.job
    options.output.mkdir(parents=True, exist_ok=True)
    return options


def write_runs(runs: Sequence[Any], folder: Path, kept: Path | None) -> None:
    """Write runs (named tuples) to a folder's runs.json, and to the file that pages are made of."""
    text = json.dumps([run._asdict() for run in runs], indent=1) + "\n"
    for file in filter(None, (folder / "runs.json", kept)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def play(algorithm: str, seed: int, options: argparse.Namespace) -> Path:
    """Train a run unless its folder exists; return the folder."""
    results = options.output / f"seed_{seed:02d}"
    settings = dict(pair.split("=", 1) for pair in options.set)
    model = Path(settings.get("model_name_or_path", "embedded")).name
    folder = results / options.job / model / "embedded" / algorithm
    flags = {"env_name": options.job, "algorithm_name": algorithm, "seed": seed, **settings}
    return trained(folder, results, flags)


def trained(folder: Path, results: Path, flags: Mapping[str, Any]) -> Path:
    """Train a run with these flags below `results` unless it exists; return its folder."""
    if not (folder / "evaluation.json").exists():
        fixed = {"results_dir": results, "tensorboard": "false", "device": "cpu"}
        train(folder, [f"--{name}={value}" for name, value in {**fixed, **flags}.items()])
    return folder


def train(folder: Path, flags: list[str]) -> None:
    """Run the training command in this process and log its output."""
    from fctncalling.cli.train import main as train_fctncalling

    shutil.rmtree(folder, ignore_errors=True)  # what an interrupted run left
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        folder.with_suffix(".log").open("w", encoding="utf-8") as log,
        redirect_stdout(log),
        redirect_stderr(log),
    ):
        code = train_fctncalling(flags)
    if code:
        raise SystemExit(
            f"train_fctncalling.py {' '.join(flags)} ended with {code}; see {log.name}"
        )


if __name__ == "__main__":
    main()
