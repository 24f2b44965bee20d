"""Report of the court's runs: areas, final success, exact tests, ruined runs and costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from arms import ARMS, RATES
from learning_report import mann_whitney, sign_flips

BASE = "REINFORCE"  # what the other arms are tested against
FEW, FAR_BELOW = 6, 0.1  # seeds, area: an arm that is so far below after so many stops there


class Run(NamedTuple):
    """One training run; successes are shares."""

    tasks: str
    arm: str
    seed: int
    lr: float
    curve: list[float]  # of the episodes of each update, those from prefixes among them
    sampled: list[float]  # of whole held-out tasks, at each evaluation
    greedy: float  # of whole held-out tasks, at the end
    largest_kl: float
    steps: int  # sampled actions
    cpu_seconds: float

    @property
    def area(self) -> float:
        """Mean sampled success on whole held-out tasks over the evaluations."""
        return fmean(self.sampled)

    @property
    def is_ruined(self) -> bool:
        """Whether the last evaluation has less than half of the best one's success."""
        return self.sampled[-1] < max(self.sampled) / 2


def read_runs(path: Path) -> list[Run]:
    """Read the runs of a file; [] if it does not exist."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Run(**json.loads(line)) for line in lines]


def best_rate(runs: Sequence[Run], tasks: str, arm: str) -> float:
    """Return the rate with the largest mean area on the tuning seeds, by default the middle one."""
    areas: dict[float, list[float]] = {}
    for run in runs:
        if (run.tasks, run.arm) == (tasks, arm) and run.seed > 100:
            areas.setdefault(run.lr, []).append(run.area)
    return max(areas, key=lambda lr: (fmean(areas[lr]), -lr), default=RATES[1])


def judged(runs: Sequence[Run], tasks: str, arm: str) -> dict[int, Run]:
    """Return an arm's runs at its best rate by seed, without tuning runs."""
    lr = best_rate(runs, tasks, ARMS[arm].rate_of or arm)
    return {
        run.seed: run
        for run in runs
        if (run.tasks, run.arm, run.lr) == (tasks, arm, lr) and run.seed <= 100
    }


def is_out(runs: Sequence[Run], tasks: str, arm: str) -> bool:
    """Whether an arm needs no more seeds: after FEW it is far below the baseline."""
    own, base = judged(runs, tasks, arm), judged(runs, tasks, BASE)
    shared = own.keys() & base.keys()
    gains = [own[seed].area - base[seed].area for seed in shared]
    return len(shared) >= FEW and fmean(gains) < -FAR_BELOW


def report(runs: Sequence[Run]) -> str:
    """Format a table with a line for each arm of each task set."""
    lines = list(HEAD)
    for tasks in dict.fromkeys(run.tasks for run in runs):
        base = judged(runs, tasks, BASE)
        lines += [arm_line(runs, tasks, name, base) for name in ARMS if judged(runs, tasks, name)]
    return "\n".join(lines)


HEAD = (
    f"| tasks | arm | rate | seeds | area | end | less {BASE}'s | p | ruined | CPU s |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def arm_line(runs: Sequence[Run], tasks: str, arm: str, base: dict[int, Run]) -> str:
    """Format an arm's line: means, and its gain with an exact p (paired by seed, else by ranks)."""
    own = judged(runs, tasks, arm)
    arm_runs = list(own.values())
    gain, p = "", ""
    if base and arm != BASE:
        gained = fmean(r.area for r in arm_runs) - fmean(r.area for r in base.values())
        gain = f"{100 * gained:+.1f}"
        p = f"{chance(own, base):.3f}"
    return (
        f"| {tasks} | {arm} | {arm_runs[0].lr:g} | {len(arm_runs)} | "
        f"{100 * fmean(r.area for r in arm_runs):.1f} | "
        f"{100 * fmean(r.greedy for r in arm_runs):.1f} | {gain} | {p} | "
        f"{sum(r.is_ruined for r in arm_runs)} | {fmean(r.cpu_seconds for r in arm_runs):.0f} |"
    )


def chance(own: dict[int, Run], base: dict[int, Run]) -> float:
    """Return the exact p value of two arms' areas being equal."""
    if own.keys() == base.keys():
        return sign_flips([own[seed].area - base[seed].area for seed in own])
    return mann_whitney([r.area for r in own.values()], [r.area for r in base.values()])
