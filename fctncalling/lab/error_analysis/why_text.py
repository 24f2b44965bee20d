"""Causes of failure as text for a terminal."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from fctncalling.cli.shared.text_table import aligned

MAX_CAUSES = 6
"""Causes of a category that are shown with examples; the others are named."""
_WIDTH = 100


def report_text(models: Mapping[str, Mapping[str, Any]], num_invalid: int) -> str:
    """Return the reports of every model and category, each with its main cause first."""
    lines: list[str] = []
    if sum(map(len, models.values())) > 1:
        lines += [_overview(models), ""]
    for model, categories in models.items():
        for category, report in categories.items():
            lines += [*_category(f"{category} ({model})", report), ""]
    if num_invalid:
        lines.append(f"{num_invalid} answers are marked invalid (infrastructure) and left out.")
    return "\n".join(lines).rstrip()


def _overview(models: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of all categories with the main cause of each."""
    rows = [["category", "answers", "official", "strict", "lenient", "main cause of failure"]]
    for categories in models.values():
        for category, report in categories.items():
            rates = [
                f"{100 * report['rates'][key]:.1f} %" for key in ("valid", "strict", "lenient")
            ]
            main = next(iter(report["causes"]), None)
            cause = f"{main['cause']} {100 * main['share']:.0f} %" if main else "-"
            rows.append([category, str(report["answers"]), *rates, cause])
    width = max(len(row[-1]) for row in rows)
    return aligned([[*row[:-1], row[-1].ljust(width)] for row in rows])


def _category(title: str, report: Mapping[str, Any]) -> Iterator[str]:
    answers, failed = report["answers"], report["failed"]
    yield f"{title}: {answers - failed} of {answers} answers right"
    rates = report["rates"]
    shown = ("official", "valid"), ("strict", "strict"), ("read leniently", "lenient")
    yield "  " + "   ".join(
        f"{label} {100 * rates[name]:.1f} %"
        for label, name in (*shown, ("types mended", "types_mended"))
    )
    if report["not_judged"]:
        yield f"  not judged: {report['not_judged']}; the first: {report['not_judged_reason']}"
    if report["forgiven"]:
        yield f"  right, but forgiven: {_counts(report['forgiven'])}"
    for number, cause in enumerate(report["causes"][:MAX_CAUSES], 1):
        yield from _cause(number, cause, failed)
    if others := report["causes"][MAX_CAUSES:]:
        yield f"  others: {_counts({each['cause']: each['count'] for each in others})}"
    if failed:
        yield f"  rules that failed first: {_shares(report['rules'])}"
        yield f"  what was said: {_shares(report['complaints'])}"


def _cause(number: int, cause: Mapping[str, Any], failed: int) -> Iterator[str]:
    yield (
        f"  {number}. {cause['cause']}: {cause['count']} of {failed} failures "
        f"({100 * cause['share']:.1f} %){_right_otherwise(cause)}"
    )
    for line in textwrap.wrap(f"change: {cause['cure']}", _WIDTH - 5):
        yield f"     {line}"
    if cause["where"]:
        yield f"     most often: {_counts(cause['where'])}"
    if cause["turns"]:
        turns = {f"turn {turn}": count for turn, count in cause["turns"].items()}
        yield f"     first failing: {_counts(turns)}"
    for example in cause["examples"]:
        where = f" ({', '.join(example['where'][:3])})" if example["where"] else ""
        yield f"     {example['id']}{where}: {_shown(example['answer']) or '(empty)'}"
        if example["turn"] is not None:
            yield f"       rule: {example['error_type']}: {_one_line(example['message'])}"
        if example["nearest"] is not None:
            yield f"       would pass: {_shown(example['nearest'])}"
        if example["causes"][1:]:
            yield f"       then: {', '.join(example['causes'][1:])}"


def _right_otherwise(cause: Mapping[str, Any]) -> str:
    for name in ("form", "types"):
        if count := cause[f"passes_with_{name}_mended"]:
            return f", {count} of them pass once that is mended"
    return ""


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _shares(shares: list[Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{each['name']} {each['count']} ({100 * each['share']:.1f} %)" for each in shares
    )


def _shown(text: str) -> str:
    """Return an answer on one line.

    Calls of an interface, whose arguments are JSON texts inside JSON, as calls are written.
    """
    try:
        calls = json.loads(text)
        written = [
            f"{name}({', '.join(f'{key}={value!r}' for key, value in json.loads(given).items())})"
            for each in calls
            for name, given in each.items()
        ]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return _one_line(text)
    return _one_line(f"[{', '.join(written)}]")


def _one_line(text: str) -> str:
    """Return a text with its line breaks and other controls spelled, so that it stays on a line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
