"""What a run is told by: a table, or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fctncalling.cli.run_output import Totals


def as_report(totals: Mapping[str, Totals], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts and rates (0..1) of each category."""
    return {**settings, "categories": {name: _rates(each) for name, each in totals.items()}}


def _rates(totals: Totals) -> dict[str, Any]:
    count = totals.episodes
    return {
        "episodes": count,
        "correct": totals.valid,
        "accuracy": totals.valid / count if count else None,
        "strict_accuracy": totals.strict / count if count else None,
        "progress": totals.progress / count if count else None,
        "invalid": totals.invalid,
    }


def table(totals: Mapping[str, Totals]) -> str:
    """Return the rates in percent as a plain table; progress is the share of turns that pass."""
    rows = [["category", "episodes", "accuracy", "strict", "progress", "invalid"]]
    for name, each in totals.items():
        rates = _rates(each)
        shown = [_percent(rates[key]) for key in ("accuracy", "strict_accuracy", "progress")]
        rows.append([name, str(each.episodes), *shown, str(each.invalid)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.2f}%"
