"""Report on the runs of benchmarks/learning.py: a table, tests between algorithms, a figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from statistics import fmean, median, stdev
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pictures import goal, save, seeds, spread, subplots

TARGET = 0.8  # greedy success on held-out tasks that a run is to reach
HIGH_TARGET = 0.9  # and, as `make train`, to end at, with TARGET on the multi-turn tasks alone
GREEDY = "eval/greedy_success_rate"
LEVEL = 0.05  # of significance, after Holm's correction


class Run(NamedTuple):
    """One training run."""

    algorithm: str
    seed: int
    curve: list[tuple[int, float]]  # (episodes played, greedy success on held-out tasks)
    multi_turn: float  # the same at the end, on the multi-turn tasks alone
    cpu_seconds: float  # of training a thousand episodes, evaluations apart

    @classmethod
    def read(cls, folder: Path, algorithm: str, seed: int, num_updates: int) -> Self:
        """Read the first updates of the run in a folder."""
        lines = [
            json.loads(line)
            for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        episodes = {0: 0} | {
            line["update"]: line["episodes"] for line in lines if "episodes" in line
        }
        evaluated = [
            line for line in lines if line.get(GREEDY) is not None and line["update"] <= num_updates
        ]
        curve = [(episodes[line["update"]], line[GREEDY]) for line in evaluated]
        summary = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
        sizes = {
            name: category["num_tasks"] for name, category in summary["after"]["categories"].items()
        }
        sizes = {name: size for name, size in sizes.items() if name.startswith("multi_turn")}
        solved = sum(size * evaluated[-1][f"{GREEDY}/{name}"] for name, size in sizes.items())
        cpu_seconds = 1000 * summary["train_cpu_seconds"] / summary["episodes"]
        return cls(algorithm, seed, curve, solved / sum(sizes.values()), cpu_seconds)

    @property
    def final(self) -> float:
        """Success at the end."""
        return self.curve[-1][1]

    @property
    def area(self) -> float:
        """Mean success over the evaluations after the first."""
        return fmean(success for _, success in self.curve[1:])

    @property
    def reached(self) -> int | None:
        """Episodes until the first evaluation at the target; None if it was never reached."""
        return next((episodes for episodes, success in self.curve if success >= TARGET), None)


def report(
    runs: Sequence[Run], shared: Mapping[str, object], settings: Mapping[str, Mapping[str, object]]
) -> str:
    """Format the table, the significance of every difference and the settings, as Markdown."""
    by_name = grouped(runs)
    episodes = sorted({run.curve[-1][0] for run in runs})
    lines = [
        f"Greedy success on held-out tasks after {' to '.join(map(str, episodes))} episodes; area: "
        "mean over the "
        f"evaluations after the first; a seed failed that never reached {TARGET:.0%}.",
        "",
        "| algorithm | seeds | mean | std | worst | best | area | episodes to 80 % (median) | "
        f"failed | end at {HIGH_TARGET:.0%} | multi-turn at {TARGET:.0%} | CPU s a 1000 episodes |",
        f"|{'---|' * 12}",
    ]
    for name, group in by_name.items():
        finals, reached = (
            [run.final for run in group],
            [run.reached for run in group if run.reached is not None],
        )
        spread = f"{100 * stdev(finals):.1f}" if len(finals) > 1 else "-"
        lines.append(
            f"| {name} | {len(group)} | {fmean(finals):.1%} | {spread} | {min(finals):.1%} | "
            f"{max(finals):.1%} | {fmean(run.area for run in group):.1%} | "
            f"{f'{median(reached):.0f}' if reached else '-'} | {len(group) - len(reached)} | "
            f"{sum(final >= HIGH_TARGET for final in finals)} | "
            f"{sum(run.multi_turn >= TARGET for run in group)} | "
            f"{fmean(run.cpu_seconds for run in group):.0f} |"
        )
    lines += ["", *differences(by_name), "", "Settings of all: " + shown(shared) + "."]
    lines += [f"{name}: {shown(settings[name])}." for name in by_name if settings[name]]
    return "\n".join(lines) + "\n"


def differences(by_name: Mapping[str, Sequence[Run]]) -> list[str]:
    """Return every pair's difference of means and two exact tests, with Holm's correction."""
    lines = [
        "Differences in points; two-sided exact tests with Holm's correction over all pairs of a "
        f"column (bold: below {LEVEL}). Paired: runs of one seed, which draw the same tasks in the "
        "same order, against each other, over all changes of signs. Rank: Mann-Whitney.",
        "",
        "| pair | final | p, paired | p, rank | area | p, paired | p, rank |",
        "|---|---|---|---|---|---|---|",
    ]
    pairs = list(combinations(by_name, 2))
    columns = []
    for measure in ("final", "area"):
        values = {
            name: {run.seed: getattr(run, measure) for run in group}
            for name, group in by_name.items()
        }
        samples = [tuple(list(values[name].values()) for name in pair) for pair in pairs]
        columns.append([f"{100 * (fmean(left) - fmean(right)):+.1f}" for left, right in samples])
        columns.append(
            marks([sign_flips(gaps(values[left], values[right])) for left, right in pairs])
        )
        columns.append(marks([mann_whitney(left, right) for left, right in samples]))
    for (left, right), *cells in zip(pairs, *columns, strict=True):
        lines.append(f"| {left} - {right} | {' | '.join(cells)} |")
    return lines


def marks(chances: Sequence[float]) -> list[str]:
    """Return corrected p values of a family, in bold if significant."""
    return [f"**{chance:.4f}**" if chance < LEVEL else f"{chance:.4f}" for chance in holm(chances)]


def gaps(left: Mapping[int, float], right: Mapping[int, float]) -> list[float]:
    """Return the differences at the seeds that both have."""
    return [left[seed] - right[seed] for seed in left if seed in right]


def sign_flips(differences: Sequence[float]) -> float:
    """Return the exact two-sided p of a mean paired difference of 0, over all sign flips."""
    seen = abs(sum(differences)) - 1e-9  # sums that differ by rounding alone are equal
    return float(np.mean(np.abs(_all_signs(len(differences)) @ np.asarray(differences)) >= seen))


@cache
def _all_signs(count: int) -> NDArray[np.float64]:
    """Return every choice of n signs, a row each."""
    return np.array(list(product((1.0, -1.0), repeat=count)))


def mann_whitney(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the exact two-sided p of the rank-sum test, over all splits of the ranks."""
    pooled = sorted([*left, *right])
    # Twice a mean rank is whole: places of the first and the last of equals, added up.
    rank = {x: pooled.index(x) + len(pooled) - pooled[::-1].index(x) + 1 for x in pooled}
    counts = rank_sums(tuple(rank[x] for x in pooled), len(left))
    centre = len(left) * (len(pooled) + 1)
    seen = abs(sum(rank[x] for x in left) - centre)
    return sum(count for total, count in counts.items() if abs(total - centre) >= seen) / sum(
        counts.values()
    )


@cache
def rank_sums(ranks: tuple[int, ...], size: int) -> dict[int, int]:
    """Return how many subsets of n ranks have each sum."""
    tables: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            for total, count in tables[chosen - 1].items():
                tables[chosen][total + rank] = tables[chosen].get(total + rank, 0) + count
    return tables[size]


def holm(chances: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p of each test of a family."""
    adjusted, floor = [0.0] * len(chances), 0.0
    for place, index in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        floor = max(floor, min(1.0, (len(chances) - place) * chances[index]))
        adjusted[index] = floor
    return adjusted


def grouped(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Group the runs by algorithm, in their order."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.algorithm, []).append(run)
    return groups


def shown(settings: Mapping[str, object]) -> str:
    return ", ".join(f"`--{name} {value}`" for name, value in settings.items())


def draw(runs: Sequence[Run], path: Path) -> None:
    """Draw each algorithm in a panel, with the others in grey."""
    groups = grouped(runs)
    figure, panels = subplots(-(-(len(groups) + 1) // 3), 3, size=(11, 6.5))
    means = {
        name: [fmean(point[1] for point in points) for points in zip(*curves, strict=True)]
        for name, group in groups.items()
        for curves in [[run.curve for run in group]]
    }
    ends = panels[len(groups)]
    for place, (name, group) in enumerate(groups.items()):
        axes, colour = panels[place], f"C{place}"
        across = [episodes for episodes, _ in group[0].curve]
        for algorithm in groups:
            if algorithm != name:
                axes.plot(across, means[algorithm], color="0.75", linewidth=1)
        rows = [[success for _, success in run.curve] for run in group]
        spread(axes, across, rows, colour, name)
        axes.set(title=f"{name} (grey: the others)", xlabel="episodes")
        beside = [place + 0.5 * (at + 0.5) / len(group) - 0.25 for at in range(len(group))]
        ends.scatter(beside, [run.final for run in group], s=14, color=colour)
        ends.hlines(means[name][-1], place - 0.35, place + 0.35, color=colour)
        goal(axes, TARGET, f"target: {TARGET:.0%}")
    for axes in panels[len(groups) + 1 :]:
        axes.set_axis_off()
    ends.set_xticks(range(len(groups)), list(groups))
    ends.set_title(f"The end, {runs[0].curve[-1][0]:,} episodes: seeds and mean")
    for axes in panels[::3]:
        axes.set_ylabel("greedy success, held-out")
    count = max(map(len, groups.values()))
    figure.suptitle(f"Embedded tasks, embedded model (0.46 M weights), {seeds(count)}")
    save(figure, path)
