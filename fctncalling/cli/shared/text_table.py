"""Summary of `run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.cli.run.output_file import Totals


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
        "context_overflow": totals.context_overflow,
        **_uncertainty(totals),
    }


def _uncertainty(totals: Totals) -> dict[str, Any]:
    """Return 95 % intervals, and pass@k where tasks were played several times."""
    if not totals.episodes:
        return {}
    told: dict[str, Any] = {"accuracy_interval": list(totals.tasks.interval())}
    if sampled := totals.tasks.report():
        told |= {"sampled": sampled, "sampled_strict": totals.strict_tasks.report()}
    return told


def table(totals: Mapping[str, Totals]) -> str:
    """Return the rates in percent as a plain table; progress is the share of turns that pass."""
    rows = [["category", "episodes", "accuracy", "95 % interval", "strict", "progress", "invalid"]]
    for name, each in totals.items():
        rates = _rates(each)
        shown = [_percent(rates[key]) for key in ("accuracy", "strict_accuracy", "progress")]
        shown.insert(1, interval_text(rates.get("accuracy_interval")))
        rows.append([name, str(each.episodes), *shown, str(each.invalid)])
    lines = [aligned(rows)]
    if any(each.tasks.num_samples > 1 for each in totals.values()):
        sampled = {name: each.tasks.report() for name, each in totals.items()}
        lines += ["", aligned(sampled_rows(sampled))]
    if overflows := sum(each.context_overflow for each in totals.values()):
        lines.append(f"{overflows} failed as the conversation outgrew the model's context")
    return "\n".join(lines)


def sampled_rows(sampled: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return category -> report of its samples as the rows of a table."""
    ks = sorted({int(k) for each in sampled.values() for k in each.get("pass@k", ())})
    heads = [f"{name[:-1]}{k}" for name in ("pass@k", "pass^k") for k in ks[name == "pass^k" :]]
    rows = [["category", "samples", *heads]]
    for category, each in sampled.items():
        cells = [
            _estimate(each.get(f"{head[:5]}k", {}).get(head[5:])) for head in heads
        ]  # "pass@4" -> each["pass@k"]["4"]
        rows.append([category, str(each.get("num_samples", 1)), *cells])
    return rows


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a plain table, the first column to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )


def interval_text(interval: Sequence[float] | None) -> str:
    """Return an interval in percent."""
    return f"{100 * interval[0]:.1f}-{100 * interval[1]:.1f}%" if interval else "-"


def _estimate(told: Mapping[str, Any] | None) -> str:
    if told is None:
        return "-"
    return f"{100 * told['estimate']:.1f}% ({interval_text(told['interval'])})"


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.2f}%"
