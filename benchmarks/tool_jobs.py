"""Runs of an embedded job over arms and seeds, and those of the jobs with tools in mid-generation.

`python benchmarks/tool_jobs.py --job calculator --seeds 10` does what `fctncalling train --env_name
calculator` does once a seed and writes runs.json into --output. Finished runs are kept: the same
command again goes on where the last one was stopped. `--keep` also writes the runs to
results/kept/jobs, from which docs/evidence_tables.py makes the table of docs/evidence/results.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "results/kept/jobs"


class JobRun(NamedTuple):
    """One finished run of `fctncalling train`."""

    arm: str
    seed: int
    evaluation: dict[str, Any]  # evaluation.json
    metrics: list[dict[str, Any]]  # lines of metrics.jsonl

    def change(self, rate: str) -> tuple[float, float]:
        """Return a rate on held-out tasks before and after, such as "greedy"."""
        return self.evaluation["before"][rate], self.evaluation["after"][rate]

    def curve(self, metric: str) -> list[tuple[int, float]]:
        """Return (update, value) where the metric was measured."""
        measured = [line for line in self.metrics if line.get(metric) is not None]
        return [(line["update"], line[metric]) for line in measured]


def job_parser(description: str | None, seeds: int) -> argparse.ArgumentParser:
    """Make the parser of a job's benchmark."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=seeds, help="number (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="folder (default: results/jobs/JOB)")
    parser.add_argument("--keep", action="store_true", help="write results/kept/jobs/JOB.json")
    return parser


def run_job(
    job: str,
    arms: Mapping[str, Mapping[str, Any]],
    figures: Callable[[JobRun], dict[str, Any]],
    options: argparse.Namespace,
) -> tuple[Path, list[dict[str, Any]]]:
    """Train each arm with each seed; write and return the figures of all runs, and the folder.

    arms: name -> flags of the training command beside the job's own. Finished runs are left as they
    are: the same command again goes on where the last one was stopped.
    """
    output = options.output or ROOT / "results/jobs" / job
    rows = []
    for run in _trained(job, arms, range(1, options.seeds + 1), output):
        before, after = run.change("greedy")
        print(f"{run.arm} seed {run.seed}: {before:.1%} -> {after:.1%} greedy", flush=True)
        rows.append(figures(run))
    text = json.dumps(rows, indent=1) + "\n"
    for file in (output / "runs.json", *([KEPT / f"{job}.json"] if options.keep else [])):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return output, rows


def _trained(
    job: str, arms: Mapping[str, Mapping[str, Any]], seeds: Sequence[int], output: Path
) -> Iterator[JobRun]:
    for arm, seed in product(arms, seeds):
        results = output / arm / f"seed_{seed:02d}"
        folder = results / job / "embedded" / "embedded" / "TPPO"
        if not (folder / "evaluation.json").exists():
            fixed = {"results_dir": results, "tensorboard": "false", "device": "cpu"}
            flags = {**fixed, "env_name": job, "seed": seed, **arms[arm]}
            _train(folder, [f"--{name}={value}" for name, value in flags.items()])
        evaluation = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        yield JobRun(arm, seed, evaluation, [*map(json.loads, lines)])


def _train(folder: Path, flags: list[str]) -> None:
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
        raise SystemExit(f"fctncalling train {' '.join(flags)} ended with {code}; see {log.name}")


def figures(run: JobRun) -> dict[str, Any]:
    """Return a run's figures: success on held-out questions by episodes played, and costs."""
    episodes = {line["update"]: line["episodes"] for line in run.metrics if "episodes" in line}

    def held_out(rate: str) -> list[tuple[int, float]]:
        curve = run.curve(f"eval/{rate}_success_rate")
        return [(episodes.get(update, 0), success) for update, success in curve]

    return {
        "algorithm": run.arm,
        "seed": run.seed,
        "greedy": held_out("greedy"),
        "sampled": held_out("sampled"),
        "training": run.curve("env/success_rate"),
        "cpu_seconds": run.evaluation["train_cpu_seconds"],
    }


def main() -> None:
    """Run the missing runs, and write the figures of all."""
    parser = job_parser(__doc__, seeds=10)
    parser.add_argument("--job", choices=("calculator", "python_math"), default="calculator")
    options = parser.parse_args()
    run_job(options.job, {"TPPO": {}}, figures, options)


if __name__ == "__main__":
    main()
