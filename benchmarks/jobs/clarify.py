"""Learning curve of the job `clarify` at several prices: asks when it must, and only then.

`python benchmarks/jobs/clarify.py --seeds 10` does what `train_fctncalling.py --env_name clarify`
does once a seed, `--prices 0.2,0,1` the same at other prices of a question. It prints a table and
writes runs.json, report.md and clarify.png into --output. Finished runs are kept: the same command
again goes on where the last one was stopped.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

sys.path.insert(0, str(Path(__file__).parents[1]))  # the shared parts lie there

from pictures import goal, save, seeds, spread, subplots
from tool_jobs import KEPT, trained, write_runs

ROOT = Path(__file__).parents[2]
NEEDED = {"clarify_missing": 64, "clarify_ambiguous": 40}  # held-out tasks of each
NOT_NEEDED = {"clarify_complete": 96}


class Run(NamedTuple):
    """One training run: rates on held-out tasks before and after."""

    price: float
    seed: int
    success: tuple[float, float]  # greedy
    sampled: tuple[float, float]
    asked_needed: tuple[float, float]  # greedy
    asked_not_needed: tuple[float, float]
    asked_sampled: tuple[float, float]  # after: where needed, where not
    cpu_seconds: float
    curve: list[tuple[int, float, float, float]]  # update, success, asked where needed, where not

    @classmethod
    def read(cls, folder: Path, price: float, seed: int) -> Self:
        """Read the run in a folder."""
        evaluation = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
        before, after = evaluation["before"], evaluation["after"]
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return cls(
            price,
            seed,
            (before["greedy"], after["greedy"]),
            (before["sampled"], after["sampled"]),
            (_asked(before, NEEDED), _asked(after, NEEDED)),
            (_asked(before, NOT_NEEDED), _asked(after, NOT_NEEDED)),
            (_asked(after, NEEDED, "sampled"), _asked(after, NOT_NEEDED, "sampled")),
            evaluation["train_cpu_seconds"],
            [point for line in map(json.loads, lines) if (point := _point(line)) is not None],
        )


def _asked(side: dict[str, Any], of: dict[str, int], kind: str = "greedy") -> float:
    """Return the share of episodes with a question, weighted by tasks."""
    rates = {name: side["categories"][name] for name in of}
    total = sum(rate["num_tasks"] for rate in rates.values())
    return sum(rate[f"{kind}_asked"] * rate["num_tasks"] for rate in rates.values()) / total


def _point(line: dict[str, Any]) -> tuple[int, float, float, float] | None:
    if line.get("eval/greedy_success_rate") is None:
        return None
    needed, unneeded = (
        sum(line[f"eval/greedy_asked/{name}"] * count for name, count in of.items())
        / sum(of.values())
        for of in (NEEDED, NOT_NEEDED)
    )
    return line["update"], line["eval/greedy_success_rate"], needed, unneeded


def main() -> None:
    """Run the missing runs, then report on all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--prices", default="0.2", help="prices, parted by commas (default 0.2)")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "clarify_seeds")
    parser.add_argument("--keep", action="store_true", help="write results/kept/jobs/clarify.json")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    for price in map(float, options.prices.split(",")):
        for seed in range(1, options.seeds + 1):
            runs.append(Run.read(play(options.output, price, seed), price, seed))
            print(_row(runs[-1]), flush=True)
    write_runs(runs, options.output, KEPT / "clarify.json" if options.keep else None)
    (options.output / "report.md").write_text(report(runs), encoding="utf-8")
    print(report(runs))
    draw([run for run in runs if run.price == runs[0].price], options.output / "clarify.png")


def play(output: Path, price: float, seed: int) -> Path:
    """Train a run unless its folder exists; return the folder."""
    results = output / f"price_{price:g}" / f"seed_{seed:02d}"
    folder = results / "clarify" / "embedded" / "embedded" / "TPPO"
    flags = {"env_name": "clarify", "question_cost": price, "seed": seed}
    return trained(folder, results, flags)


def report(runs: Sequence[Run]) -> str:
    """Format a Markdown table of the runs."""
    head = "| price | seed | success, greedy | sampled | asked where needed | asked where not | "
    head += "the two, sampled | CPU s |"
    return "\n".join([head, "|---" * 8 + "|", *map(_row, runs)]) + "\n"


def _row(run: Run) -> str:
    def change(pair: tuple[float, float], link: str = "->") -> str:
        return f"{100 * pair[0]:.1f} {link} {100 * pair[1]:.1f} %"

    cells = (run.success, run.sampled, run.asked_needed, run.asked_not_needed)
    changes = " | ".join(map(change, cells))
    both = change(run.asked_sampled, "and")
    return f"| {run.price:g} | {run.seed} | {changes} | {both} | {run.cpu_seconds:.0f} |"


def draw(runs: Sequence[Run], path: Path) -> None:
    """Draw success and questions (needed or not) by update."""
    figure, (left, right) = subplots(1, 2, size=(10, 4.4))
    across = [point[0] for point in runs[0].curve]
    for axes, number, color, label in (
        (left, 1, "C0", "success"),
        (right, 2, "C0", "where a value is missing"),
        (right, 3, "C1", "where none is"),
    ):
        spread(axes, across, [[point[number] for point in run.curve] for run in runs], color, label)
    goal(left, 0.9, "goal: 90 %")
    left.set(title="Held-out tasks, greedy", xlabel="update", ylabel="success")
    right.set(title="Episodes with a question", xlabel="update", ylabel="share")
    right.legend(loc="center right")
    count = len({run.seed for run in runs})
    figure.suptitle(f"clarify job, price {runs[0].price:g} a question, {seeds(count)}")
    save(figure, path)


if __name__ == "__main__":
    main()
