"""Figures of docs/court.md: grade against area, dose-response, forest of effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from critical import ROOT, CriticalRun, mean
from pictures import GREY, save
from verdicts import (
    MARGIN,
    SEEDS,
    SIGNS,
    areas_of,
    effects,
    grade_and_area,
    interval,
    standing,
)

DOCS = ROOT / "docs"
DOSES = (
    *("ceiling", "noise_1", "noise_3", "GRPO"),
    *("GRPO_noise_1", "GRPO_noise_3", "GRPO_noise_10", "shuffled"),
)


def draw_forest(sets: Mapping[str, Sequence[CriticalRun]]) -> None:
    """Draw each comparison of several seeds with its interval and its verdict.

    Hollow where it is not judged; the grey band is what does not count.
    """
    every = [(tasks, effect) for tasks, runs in sets.items() for effect in effects(runs)]
    found = [(tasks, effect) for tasks, effect in every[::-1] if len(effect.gains) > 1]
    figure, axes = _figure(7.5, 1.2 + 0.27 * len(found))
    names = []
    for place, (tasks, effect) in enumerate(found):
        low, high = effect.interval
        axes.plot([low, high], [place, place], color="C0", linewidth=2)
        inside = "C0" if len(effect.gains) >= SEEDS else "white"
        axes.plot(mean(effect.gains), place, "o", color="C0", markerfacecolor=inside)
        each, verdict = effect.comparison, standing(sets[tasks], effect)
        arms = f"{each.first} {SIGNS[each.says]} {each.second} ({len(effect.gains)})"
        names.append(f"{each.claim}, {tasks}: {arms}: {verdict}")
    axes.set_yticks(range(len(found)), names)
    axes.axvspan(-MARGIN, MARGIN, color="0.9", zorder=0)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xlabel("first arm less second, points of area")
    save(figure, DOCS / "court_forest.png")


def draw_grades(runs: Sequence[CriticalRun], grades: Sequence[Mapping[str, Any]]) -> None:
    """Draw grade against area, and the doses among them."""
    points = grade_and_area(runs, grades)
    figure, axes = _figure(6.5, 4.2)
    for name, (cosine, gain) in points.items():
        marker, colour = ("s", "C1") if name in DOSES else ("o", "C0")
        axes.plot(cosine, gain, marker, color=colour)
    axes.set_xlim(-0.06, 1.0)
    axes.set_xlabel("grade: cosine of advantages with the truth")
    axes.set_ylabel("area less GRPO's, points")
    _name_points(axes, points)
    save(figure, DOCS / "court_grades.png")

    figure, axes = _figure(6.5, 4.2)
    areas = areas_of(runs)
    doses = sorted((points[name][0], name) for name in DOSES if name in points)
    for cosine, name in doses:
        own = list(areas[name].values())
        low, high = interval(own)
        axes.plot([cosine, cosine], [low, high], color="C1", linewidth=2)
        axes.annotate(name, (cosine, mean(own)), xytext=(6, 0), textcoords="offset points")
    axes.plot(
        [cosine for cosine, _ in doses],
        [mean(areas[n].values()) for _, n in doses],
        "s-",
        color="C1",
    )
    axes.set_xlabel("cosine of the given advantages with the truth")
    axes.set_ylabel("area, points")
    save(figure, DOCS / "court_doses.png")


def _name_points(axes: Any, points: Mapping[str, tuple[float, float]]) -> None:
    """Write each point's name where no other name stands yet."""
    figure, placed = axes.figure, list[Any]()
    figure.canvas.draw()
    for name, place in sorted(points.items(), key=lambda it: it[1]):
        for *beside, side in (
            (6, 3, "left"),
            (6, -11, "left"),
            (-6, -8, "right"),
            (-6, 5, "right"),
        ):
            text = axes.annotate(
                name, place, xytext=beside, textcoords="offset points", fontsize=8, ha=side
            )
            box = text.get_window_extent()
            if not any(box.overlaps(other) for other in placed):
                break
            text.remove()
        placed.append(box)


def _figure(width: float, height: float) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes.grid(alpha=0.3)
    return figure, axes
