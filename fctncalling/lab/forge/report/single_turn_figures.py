"""Figures of single-turn categories for the report."""

from __future__ import annotations

from collections.abc import Sequence

from fctncalling.data.types import Task
from fctncalling.lab.forge.report.category_report import Figures, Row, share_figure
from fctncalling.lab.forge.single_turn.measures import SingleTurnFigures, measure_single_turn


def single_turn_figures(forged: Sequence[Task], official: Sequence[Task]) -> Figures:
    """Return the rows and figures of one single-turn category."""
    ours = measure_single_turn(forged)
    theirs = measure_single_turn(official) if official else None
    beside = theirs or SingleTurnFigures(0, {}, {}, {}, {}, {}, {})
    figures = [
        share_figure("functions offered", ours.functions, beside.functions),
        share_figure("parameters of a function", ours.parameters, beside.parameters),
        share_figure("types of parameters", ours.types, beside.types),
    ]
    if any(int(number) > 1 for number in ours.calls):
        figures.append(share_figure("calls expected", ours.calls, beside.calls))
    return _rows(ours, theirs), figures


def _rows(ours: SingleTurnFigures, theirs: SingleTurnFigures | None) -> list[Row]:
    rows: list[Row] = [
        (name, f"{share:.1%}", f"{theirs.shares[name]:.1%}" if theirs else "")
        for name, share in ours.shares.items()
    ]
    for name, spread in ours.lengths.items():
        shown = _shown(theirs.lengths[name]) if theirs else ""
        rows.append((f"words of a {name} (mean, median, 90 %)", _shown(spread), shown))
    return rows


def _shown(spread: tuple[float, float, float]) -> str:
    return f"{spread[0]:.1f}, {spread[1]:.0f}, {spread[2]:.0f}"
