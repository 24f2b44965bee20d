"""Aligned text tables, percentages and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def pass_at_k_rows(reports: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of a table of pass@k, by category, header first, from sample reports."""
    ks = sorted({int(k) for each in reports.values() for k in each.get("pass@k", ())})
    heads = [f"{name[:-1]}{k}" for name in ("pass@k", "pass^k") for k in ks[name == "pass^k" :]]
    rows = [["category", "samples", *heads]]
    for category, each in reports.items():
        # "pass@4" -> each["pass@k"]["4"]
        cells = [_estimate(each.get(f"{head[:5]}k", {}).get(head[5:])) for head in heads]
        rows.append([category, str(each.get("num_samples", 1)), *cells])
    return rows


def align_rows(rows: Sequence[Sequence[str]]) -> str:
    """Align rows of cells as a plain table, the first column to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )


def interval_text(interval: Sequence[float] | None) -> str:
    """Return an interval as text, in percent."""
    return f"{100 * interval[0]:.1f}-{100 * interval[1]:.1f}%" if interval else "-"


def _estimate(report: Mapping[str, Any] | None) -> str:
    if report is None:
        return "-"
    return f"{100 * report['estimate']:.1f}% ({interval_text(report['interval'])})"


def percent(rate: float | None) -> str:
    """Return percent of a rate, as text."""
    return "-" if rate is None else f"{100 * rate:.2f}%"
