"""What the runs of benchmarks/learning.py show: a table, the tests between algorithms, and a figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import fmean, median, stdev
from typing import NamedTuple, Self

TARGET = 0.8  # greedy success on held-out tasks that a run is to reach
LEVEL = 0.05  # of significance, after Holm's correction


class Run(NamedTuple):
    """One training run."""

    algorithm: str
    seed: int
    curve: list[tuple[int, float]]  # (episodes played, greedy success on held-out tasks)
    cpu_seconds: float  # of training, evaluations apart

    @classmethod
    def read(cls, folder: Path, algorithm: str, seed: int) -> Self:
        """Return the run that left this folder."""
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        episodes = {0: 0} | {line["update"]: line["episodes"] for line in lines if "episodes" in line}
        key = "eval/greedy_success_rate"
        curve = [(episodes[line["update"]], line[key]) for line in lines if line.get(key) is not None]
        evaluation = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
        return cls(algorithm, seed, curve, evaluation["train_cpu_seconds"])

    @property
    def final(self) -> float:
        """Success at the end."""
        return self.curve[-1][1]

    @property
    def area(self) -> float:
        """Mean success over the evaluations after the first: how soon and how far it learned."""
        return fmean(success for _, success in self.curve[1:])

    @property
    def reached(self) -> int | None:
        """Episodes at the first evaluation that reached the target; None where none did."""
        return next((episodes for episodes, success in self.curve if success >= TARGET), None)


def report(runs: Sequence[Run], shared: Mapping[str, object], settings: Mapping[str, Mapping[str, object]]) -> str:
    """Return the table, the significance of every difference and the settings, as Markdown."""
    by_name = grouped(runs)
    episodes = sorted({run.curve[-1][0] for run in runs})
    lines = [
        f"Greedy success on held-out tasks after {' to '.join(map(str, episodes))} episodes; a seed failed that never "
        f"reached {TARGET:.0%}; area: mean over the evaluations.",
        "",
        "| algorithm | seeds | mean | std | worst | best | area | episodes to 80 % (median) | failed | CPU s a run |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, group in by_name.items():
        finals, reached = [run.final for run in group], [run.reached for run in group if run.reached is not None]
        spread = f"{100 * stdev(finals):.1f}" if len(finals) > 1 else "-"
        lines.append(
            f"| {name} | {len(group)} | {fmean(finals):.1%} | {spread} | {min(finals):.1%} | {max(finals):.1%} "
            f"| {fmean(run.area for run in group):.1%} | {median(reached) if reached else '-'} "
            f"| {len(group) - len(reached)} | {fmean(run.cpu_seconds for run in group):.0f} |"
        )
    lines += ["", *differences(by_name), "", "Settings of all: " + shown(shared) + "."]
    lines += [f"{name}: {shown(settings[name])}." for name in by_name if settings[name]]
    return "\n".join(lines) + "\n"


def differences(by_name: Mapping[str, Sequence[Run]]) -> list[str]:
    """Return every pair's difference of means and the exact Mann-Whitney test of it, with Holm's correction."""
    lines = [
        "Two-sided exact Mann-Whitney tests, Holm's correction over all pairs of a column:",
        "",
        "| pair | final, difference | p | p, Holm | area, difference | p | p, Holm |",
        "|---|---|---|---|---|---|---|",
    ]
    pairs = list(combinations(by_name, 2))
    columns = []
    for measure in ("final", "area"):
        values = {name: [getattr(run, measure) for run in group] for name, group in by_name.items()}
        chances = [mann_whitney(values[one], values[other]) for one, other in pairs]
        gaps = [fmean(values[one]) - fmean(values[other]) for one, other in pairs]
        columns.append(list(zip(gaps, chances, holm(chances), strict=True)))
    for (one, other), final, area in zip(pairs, *columns, strict=True):
        cells = [f"{100 * gap:+.1f} | {p:.4f} | {mark(adjusted)}" for gap, p, adjusted in (final, area)]
        lines.append(f"| {one} - {other} | {cells[0]} | {cells[1]} |")
    return lines


def mark(chance: float) -> str:
    """Return a probability, in bold where it is significant."""
    return f"**{chance:.4f}**" if chance < LEVEL else f"{chance:.4f}"


def mann_whitney(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p of the rank-sum test, exact: over all ways to part the ranks, ties sharing theirs."""
    pooled = sorted([*one, *other])
    # Twice a mean rank is whole: places of the first and the last of equals, added up.
    rank = {x: pooled.index(x) + len(pooled) - pooled[::-1].index(x) + 1 for x in pooled}
    counts = rank_sums(tuple(rank[x] for x in pooled), len(one))
    centre = len(one) * (len(pooled) + 1)
    seen = abs(sum(rank[x] for x in one) - centre)
    return sum(count for total, count in counts.items() if abs(total - centre) >= seen) / sum(counts.values())


@cache
def rank_sums(ranks: tuple[int, ...], size: int) -> dict[int, int]:
    """Return how many subsets of so many ranks have each sum."""
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
    """Return the runs by algorithm, in the order they came."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.algorithm, []).append(run)
    return groups


def shown(settings: Mapping[str, object]) -> str:
    return ", ".join(f"`--{name} {value}`" for name, value in settings.items())


def draw(runs: Sequence[Run], path: Path) -> None:
    """Draw each algorithm's median over seeds, and the middle half of them, over episodes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for name, group in grouped(runs).items():
        episodes = [point[0] for point in group[0].curve]
        table = np.array([[point[1] for point in run.curve] for run in group])
        low, middle, high = np.quantile(table, (0.25, 0.5, 0.75), axis=0)
        (line,) = axes.plot(episodes, middle, "o-", markersize=3, label=f"{name} ({len(group)} seeds)")
        axes.fill_between(episodes, low, high, color=line.get_color(), alpha=0.15)
    axes.axhline(TARGET, color="grey", linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="episodes", ylabel="greedy success on held-out tasks", ylim=(-0.02, 1.02),
        title="Embedded multi-turn tasks: median and middle half of the seeds",
    )  # fmt: skip
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)
    plt.close(figure)
