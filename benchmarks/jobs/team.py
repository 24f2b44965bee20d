"""Learning curve of the job `team`, compared with one agent that knows all or half.

`python benchmarks/jobs/team.py --seeds 5` does what `train_fctncalling.py --env_name team` does
once a seed, `--variants team,frozen_planner,alone` also what VARIANTS say. It prints a table and
writes runs.json, report.md and team.png into --output. Finished runs are kept: the same command
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
from typing import NamedTuple, Self

sys.path.insert(0, str(Path(__file__).parents[1]))  # the shared parts lie there

from pictures import goal, save, seeds, spread, subplots
from tool_jobs import KEPT, trained, write_runs

ROOT = Path(__file__).parents[2]
VARIANTS: dict[str, dict[str, str]] = {
    "team": {},
    "frozen_planner": {"frozen_roles": "planner"},
    "frozen_caller": {"frozen_roles": "caller"},
    "alone": {"team": "parcels_alone"},
    "addresses_alone": {"team": "parcels_addresses_alone"},
    "boxes_alone": {"team": "parcels_boxes_alone"},
}
"""Name of a variant -> flags that differ from the job's."""
PANELS = {
    "Both roles learn, or one": ("team", "frozen_planner", "frozen_caller"),
    "Two halves, or one agent": ("team", "alone", "addresses_alone", "boxes_alone"),
}
"""Title of a panel -> variants in it."""


class TeamRun(NamedTuple):
    """One training run: success on held-out tasks before and after."""

    variant: str
    seed: int
    greedy: tuple[float, float]
    sampled: tuple[float, float]
    cpu_seconds: float
    curve: list[tuple[int, float]]  # update, success of its training episodes

    @classmethod
    def read(cls, folder: Path, variant: str, seed: int) -> Self:
        """Read the run in a folder."""
        evaluation = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
        sides = evaluation["before"], evaluation["after"]
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        name = "env/success_rate"
        points = [line for line in map(json.loads, lines) if line.get(name) is not None]
        return cls(
            variant,
            seed,
            (sides[0]["greedy"], sides[1]["greedy"]),
            (sides[0]["sampled"], sides[1]["sampled"]),
            evaluation["train_cpu_seconds"],
            [(point["update"], point[name]) for point in points],
        )


def main() -> None:
    """Run the missing runs, then report on all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--variants", default=",".join(VARIANTS), help="default: all of them")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "team_seeds")
    parser.add_argument("--keep", action="store_true", help="write results/kept/jobs/team.json")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    runs: list[TeamRun] = []
    for variant in options.variants.split(","):
        for seed in range(1, options.seeds + 1):
            runs.append(TeamRun.read(play(options.output, variant, seed), variant, seed))
            print(_row(runs[-1]), flush=True)
    write_runs(runs, options.output, KEPT / "team.json" if options.keep else None)
    (options.output / "report.md").write_text(report(runs), encoding="utf-8")
    print(report(runs))
    draw(runs, options.output / "team.png")


def play(output: Path, variant: str, seed: int) -> Path:
    """Train a run unless its folder exists; return the folder."""
    results = output / variant / f"seed_{seed:02d}"
    folder = results / "team" / "embedded" / "embedded" / "TPPO"
    flags = {"env_name": "team", **VARIANTS[variant], "seed": seed}
    return trained(folder, results, flags)


def report(runs: Sequence[TeamRun]) -> str:
    """Format a Markdown table of the runs."""
    head = "| variant | seed | success, greedy | sampled | CPU s |"
    return "\n".join([head, "|---" * 5 + "|", *map(_row, runs)]) + "\n"


def _row(run: TeamRun) -> str:
    changes = " | ".join(
        f"{100 * before:.0f} -> {100 * after:.0f} %" for before, after in (run.greedy, run.sampled)
    )
    return f"| {run.variant} | {run.seed} | {changes} | {run.cpu_seconds:.0f} |"


def draw(runs: Sequence[TeamRun], path: Path) -> None:
    """Draw the team's success next to its baselines', as far as they were run."""
    variants = {run.variant for run in runs}
    titles = [title for title, names in PANELS.items() if variants & set(names[1:])]
    titles = titles or [*PANELS][:1]
    figure, panels = subplots(1, len(titles), size=(5 * len(titles), 4.4))
    for axes, title in zip(panels, titles, strict=True):
        for number, variant in enumerate(PANELS[title]):
            rows = [run.curve for run in runs if run.variant == variant]
            if rows:
                across = [update for update, _ in rows[0]]
                name = f"{variant.replace('_', ' ')}, {seeds(len(rows))}"
                spread(axes, across, [[y for _, y in row] for row in rows], f"C{number}", name)
        goal(axes, 0.85, "goal: 85 %")
        axes.set(title=title, xlabel="update", ylabel="success of training episodes")
        axes.legend(loc="best", fontsize=8)
    figure.suptitle("team job")
    save(figure, path)


if __name__ == "__main__":
    main()
