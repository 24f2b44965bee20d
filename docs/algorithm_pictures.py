"""Picture of docs/algorithms.md: `python docs/algorithm_pictures.py`.

It shows the targets of every token of a worked example under four algorithms.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from fctncalling.algorithms.algorithm import Trajectories
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.ppo import ALGORITHMS

DOCS = Path(__file__).parent
GREY = "#595959"  # 7:1 on white
REWARDS = [[0.0, 0.0, 0.5, 0.0, 1.0]]  # two actions of three and two tokens
VALUES = [[0.1, 0.3, 0.2, 0.4, 0.6]]
ENDS = [[False, False, True, False, True]]
TOKENS = ["ls", "(", ")", "Done", "."]
COLOURS = {name: f"C{number}" for number, name in enumerate(ALGORITHMS)}


def estimate(name: str) -> tuple[list[float], list[float]]:
    """Return advantages and targets of the worked example, a number a token."""
    episodes = Trajectories(
        torch.tensor(REWARDS, dtype=torch.float64),
        torch.tensor(VALUES, dtype=torch.float64),
        torch.ones(1, 5, dtype=torch.bool),
        torch.tensor(ENDS),
        torch.zeros(1, dtype=torch.float64),
        torch.zeros(1, dtype=torch.int64),
    )
    found = ALGORITHMS[name].estimate(
        episodes, TrainConfig(algorithm_name=name, gamma=0.9, lam=0.8)
    )
    return found.advantages[0].tolist(), found.returns[0].tolist()


def draw_backup(path: Path) -> None:
    """Draw the worked example token by token, with its discounts and targets."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(9, 4.2), layout="constrained")
    axes.set(xlim=(-1.5, 5.4), ylim=(-2.75, 1.3))
    axes.axis("off")
    places = [0, 1, 2, 3.4, 4.4]
    for place, token, value in zip(places, TOKENS, VALUES[0], strict=True):
        is_first = place < 3
        box = {"boxstyle": "round,pad=0.5", "fc": "#dfe7fb" if is_first else "#fde8d4", "ec": GREY}
        axes.text(place, 0, token, ha="center", va="center", family="monospace", bbox=box)
        axes.text(place, 0.42, f"V = {value:g}", ha="center", fontsize=9, color=GREY)
    axes.text(1, 0.85, "action 1, reward 0.5", ha="center", weight="bold")
    axes.text(3.9, 0.85, "action 2, reward 1, end", ha="center", weight="bold")
    for start, end in pairwise(places):
        passes = start == 2
        label = r"time passes: $\gamma$ = 0.9, $\lambda$ = 0.8" if passes else "no time: 1"
        arrow = {"arrowstyle": "->", "color": "#b3261e" if passes else GREY}
        axes.annotate("", (start + 0.28, -0.32), (end - 0.28, -0.32), arrowprops=arrow)
        middle, low = (start + end) / 2, -0.72 if passes else -0.52
        colour = "#b3261e" if passes else GREY
        axes.text(middle, low, label, ha="center", fontsize=8, color=colour)
    for row, (name, words) in enumerate(_ROWS.items()):
        height = -1.15 - 0.42 * row
        axes.text(-1.45, height, words, va="center", fontsize=9, color=COLOURS[name])
        for place, target in zip(places, estimate(name)[1], strict=True):
            axes.text(place, height, f"{target:.3f}", ha="center", va="center", fontsize=10)
    axes.text(-1.45, -0.12, "target of the\ntoken by", va="center", fontsize=9)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


_ROWS = {"TPPO": "TPPO (exact)", "POAD": "POAD", "NTPO": "NTPO", "APPO": "APPO (action)"}


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    return pyplot


def main() -> None:
    """Draw the picture."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    draw_backup(DOCS / "bad.png")


if __name__ == "__main__":
    main()
