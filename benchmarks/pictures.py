"""Shared parts of the benchmark figures: mean and range over seeds, a labelled goal, saving."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

GREY = "#595959"  # 7:1 on white


def subplots(*shape: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    """Make a figure and its axes in a row, with success from 0 to 1."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import PercentFormatter

    figure, table = pyplot.subplots(
        *shape, figsize=size, layout="constrained", sharey=True, squeeze=False
    )
    panels = list(table.flat)
    for axes in panels:
        axes.set_ylim(-0.02, 1.03)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(alpha=0.3)
    return figure, panels


def spread(
    axes: Any,
    across: Sequence[float],
    rows: Sequence[Sequence[float]],
    colour: str,
    label: str,
    **line: Any,
) -> None:
    """Draw the mean of rows, one per seed, and their range."""
    columns = list(zip(*rows, strict=True))
    mean = [sum(column) / len(column) for column in columns]
    axes.plot(across, mean, color=colour, label=label, **{"linewidth": 2, **line})
    if len(rows) > 1:
        low, high = ([pick(column) for column in columns] for pick in (min, max))
        axes.fill_between(across, low, high, color=colour, alpha=0.2, linewidth=0)


def goal(axes: Any, value: float, label: str) -> None:
    """Draw a dotted line at a value, with its label at the left."""
    axes.axhline(value, color=GREY, linewidth=1, linestyle=":")
    axes.annotate(
        label,
        (0.01, value),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="left",
        va="bottom",
        fontsize=8,
        color=GREY,
    )


def seeds(count: int) -> str:
    """Describe the number of seeds in a figure."""
    return f"mean and range of {count} seeds" if count > 1 else "1 seed"


def save(figure: Any, path: Path) -> None:
    """Write a figure."""
    from matplotlib import pyplot

    figure.savefig(path, dpi=110)
    pyplot.close(figure)
