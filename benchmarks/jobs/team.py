"""Learning curve of the job `team`, compared with one agent that knows all or half.

`python benchmarks/jobs/team.py --seeds 5` does what `fctncalling train --env_name team` does once a
seed, with the flags of each of VARIANTS; `--variants team,alone` runs some of them. It writes
runs.json and team.png into --output. Finished runs are kept: the same command again goes on where
the last one was stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the shared parts lie there

from pictures import goal, save, seeds, spread, subplots
from tool_jobs import JobRun, job_parser, run_job

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


def figures(run: JobRun) -> dict[str, Any]:
    """Return a run's figures: success on held-out tasks (before, after), and in training."""
    return {
        "variant": run.arm,
        "seed": run.seed,
        "greedy": run.change("greedy"),
        "sampled": run.change("sampled"),
        "cpu_seconds": run.evaluation["train_cpu_seconds"],
        "curve": run.curve("env/success_rate"),
    }


def main() -> None:
    """Run the missing runs; write the figures of all and their picture."""
    parser = job_parser(__doc__, seeds=5)
    parser.add_argument("--variants", default=",".join(VARIANTS), help="default: all of them")
    options = parser.parse_args()
    arms = {variant: VARIANTS[variant] for variant in options.variants.split(",")}
    output, runs = run_job("team", arms, figures, options)
    draw(runs, output / "team.png")


def draw(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the team's success next to its baselines', as far as they were run."""
    variants = {run["variant"] for run in runs}
    titles = [title for title, names in PANELS.items() if variants & set(names[1:])]
    titles = titles or [*PANELS][:1]
    figure, panels = subplots(1, len(titles), size=(5 * len(titles), 4.4))
    for axes, title in zip(panels, titles, strict=True):
        for number, variant in enumerate(PANELS[title]):
            rows = [run["curve"] for run in runs if run["variant"] == variant]
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
