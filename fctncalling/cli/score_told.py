"""What `score` prints: a table for each model, or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fctncalling.checkers.leaderboard import Score, version_3, version_4
from fctncalling.cli.score_inputs import FORMAT_SENSITIVITY
from fctncalling.cli.score_tree import ModelScores

_SPREAD = {"max_delta": "max delta", "std": "standard deviation", "variance": "variance"}
"""Name of a statistic -> as it is told; all are in points of accuracy (variance: squared)."""


def as_json(models: Mapping[str, ModelScores]) -> dict[str, Any]:
    """Return model -> accuracies (0..1 and as BFCL shows them) by category and version."""
    return {name: _report(scores) for name, scores in models.items()}


def _report(scores: ModelScores) -> dict[str, Any]:
    def plain(named: dict[str, Score]) -> dict[str, Any]:
        return {
            name: {"accuracy": each.accuracy, "shown": str(each)} for name, each in named.items()
        }

    return {
        "categories": {
            name: {
                "accuracy": each.accuracy,
                "correct": header["correct_count"],
                "total": each.entries,
                **scores.beside[name].rates(),
                **({"sensitivity": sensitivity(header)} if name == FORMAT_SENSITIVITY else {}),
            }
            for name, (each, header) in scores.with_headers().items()
        },
        "v4": plain(version_4(scores.scores)),
        "v3": plain(version_3(scores.scores)),
        "invalid": len(scores.invalid),
    }


def sensitivity(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return what format sensitivity tells beside its accuracy: how accuracies of configurations spread, and each."""
    spread = {name: header[f"accuracy_{name}"] for name in _SPREAD}
    return {
        **spread,
        "configurations": {name: each for name, each in header.items() if isinstance(each, dict)},
    }


def as_text(models: Mapping[str, ModelScores]) -> str:
    """Return a plain table for each model."""
    return "\n\n".join(_table(scores) for scores in models.values())


def _table(scores: ModelScores) -> str:
    rows = [("category", "entries", "accuracy", *next(iter(scores.beside.values())).columns())]
    rows += [
        (name, str(each.entries), str(each), *scores.beside[name].cells())
        for name, each in scores.scores.items()
    ]
    for version, named in (("V4", version_4(scores.scores)), ("V3", version_3(scores.scores))):
        blanks = ("",) * (len(rows[0]) - 3)
        rows += [
            (f"{version} {name.replace('_', ' ')}", "", str(each), *blanks)
            for name, each in named.items()
        ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )
    return "\n".join([scores.model, *lines, *_sensitivity_lines(scores)])


def _sensitivity_lines(scores: ModelScores) -> list[str]:
    header = scores.categories.get(FORMAT_SENSITIVITY)
    if header is None:
        return []
    told = sensitivity(header)
    spread = ", ".join(f"{_SPREAD[name]} {told[name]}" for name in _SPREAD)
    lines = [
        f"format sensitivity, in points over {len(told['configurations'])} prompt configurations: {spread}"
    ]
    return lines + [
        f"{Score(each['accuracy'], 0)!s:>8}  {name}"
        for name, each in told["configurations"].items()
    ]
