"""Summary of `run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fctncalling.cli.run.output_file import Totals
from fctncalling.cli.shared.text_table import aligned, interval_text, percent, sampled_rows


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
    fields: dict[str, Any] = {"accuracy_interval": list(totals.tasks.interval())}
    if sampled := totals.tasks.report():
        fields |= {"sampled": sampled, "sampled_strict": totals.strict_tasks.report()}
    return fields


def table(totals: Mapping[str, Totals], settings: Mapping[str, Any]) -> str:
    """Return the rates in percent as a plain table; progress is the share of turns that pass.

    Below it stands how tasks were shown: rates of different prompts do not compare.
    """
    rows = [["category", "episodes", "accuracy", "95 % interval", "strict", "progress", "invalid"]]
    for name, each in totals.items():
        rates = _rates(each)
        shown = [percent(rates[key]) for key in ("accuracy", "strict_accuracy", "progress")]
        shown.insert(1, interval_text(rates.get("accuracy_interval")))
        rows.append([name, str(each.episodes), *shown, str(each.invalid)])
    lines = [aligned(rows)]
    if any(each.tasks.num_samples > 1 for each in totals.values()):
        sampled = {name: each.tasks.report() for name, each in totals.items()}
        lines += ["", aligned(sampled_rows(sampled))]
    if overflows := sum(each.context_overflow for each in totals.values()):
        lines.append(f"{overflows} failed as the conversation outgrew the model's context")
    lines.append(f"form {settings['form']}, prompt style {settings['prompt_style']}")
    return "\n".join(lines)
