"""Learning curve of the job `clarify` at several prices: asks when it must, and only then.

`python benchmarks/jobs/clarify.py --seeds 10` does what `fctncalling train --env_name clarify` does
once a seed, `--prices 0.2,0,1` the same at other prices of a question. It writes runs.json and
clarify.png into --output. Finished runs are kept: the same command again goes on where the last one
was stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the shared parts lie there

from pictures import goal, save, seeds, spread, subplots
from tool_jobs import JobRun, job_parser, run_job

NEEDED = {"clarify_missing": 64, "clarify_ambiguous": 40}  # held-out tasks of each
NOT_NEEDED = {"clarify_complete": 96}
SUCCESS = "eval/greedy_success_rate"


def figures(run: JobRun) -> dict[str, Any]:
    """Return a run's figures: (before, after) of each rate, and points of the updates.

    A point: update, success, share of episodes with a question where one is needed, and where not.
    """
    before, after = run.evaluation["before"], run.evaluation["after"]
    return {
        "price": float(run.arm),
        "seed": run.seed,
        "success": run.change("greedy"),
        "sampled": run.change("sampled"),
        "asked_needed": (_asked(before, NEEDED), _asked(after, NEEDED)),
        "asked_not_needed": (_asked(before, NOT_NEEDED), _asked(after, NOT_NEEDED)),
        "asked_sampled": [_asked(after, of, "sampled") for of in (NEEDED, NOT_NEEDED)],
        "cpu_seconds": run.evaluation["train_cpu_seconds"],
        "curve": [
            (line["update"], line[SUCCESS], _asked_in(line, NEEDED), _asked_in(line, NOT_NEEDED))
            for line in run.metrics
            if line.get(SUCCESS) is not None
        ],
    }


def _asked(side: dict[str, Any], of: dict[str, int], kind: str = "greedy") -> float:
    """Return the share of episodes with a question, weighted by tasks."""
    rates = {name: side["categories"][name] for name in of}
    total = sum(rate["num_tasks"] for rate in rates.values())
    return sum(rate[f"{kind}_asked"] * rate["num_tasks"] for rate in rates.values()) / total


def _asked_in(line: dict[str, Any], of: dict[str, int]) -> float:
    """Return the same share in a line of metrics."""
    asked = sum(line[f"eval/greedy_asked/{name}"] * count for name, count in of.items())
    return float(asked / sum(of.values()))


def main() -> None:
    """Run the missing runs; write the figures of all and a picture of the first price's."""
    parser = job_parser(__doc__, seeds=10)
    parser.add_argument("--prices", default="0.2", help="prices, parted by commas (default 0.2)")
    options = parser.parse_args()
    arms = {price: {"question_cost": price} for price in options.prices.split(",")}
    output, runs = run_job("clarify", arms, figures, options)
    draw([run for run in runs if run["price"] == runs[0]["price"]], output / "clarify.png")


def draw(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw success and questions (needed or not) by update."""
    figure, (left, right) = subplots(1, 2, size=(10, 4.4))
    across = [point[0] for point in runs[0]["curve"]]
    for axes, number, color, label in (
        (left, 1, "C0", "success"),
        (right, 2, "C0", "where a value is missing"),
        (right, 3, "C1", "where none is"),
    ):
        rows = [[point[number] for point in run["curve"]] for run in runs]
        spread(axes, across, rows, color, label)
    goal(left, 0.9, "goal: 90 %")
    left.set(title="Held-out tasks, greedy", xlabel="update", ylabel="success")
    right.set(title="Episodes with a question", xlabel="update", ylabel="share")
    right.legend(loc="center right")
    figure.suptitle(f"clarify job, price {runs[0]['price']:g} a question, {seeds(len(runs))}")
    save(figure, path)


if __name__ == "__main__":
    main()
