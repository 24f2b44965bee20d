"""Tables and JSON of `score`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.checkers.leaderboard import (
    LIVE,
    MEMORY,
    MULTI_TURN,
    NON_LIVE,
    SIZES,
    WEB_SEARCH,
    Score,
    version_3,
    version_4,
)
from fctncalling.cli.score.score_files import NOT_SHOWN, ModelScores
from fctncalling.cli.shared.text_table import aligned, sampled_rows
from fctncalling.data.format_sensitivity import CATEGORY as FORMAT_SENSITIVITY

_V3_LIVE = (*LIVE, "live_irrelevance", "live_relevance")
_NEEDED: dict[str, dict[str, tuple[str, ...]]] = {
    "V4": {
        "overall": tuple(name for name in SIZES if name != "live_relevance"),
        "non_live": NON_LIVE,
        "live": LIVE,
        "irrelevance": ("irrelevance", "live_irrelevance"),
        "multi_turn": MULTI_TURN,
        "agentic": (*WEB_SEARCH, *MEMORY),
        "non_live_ast": NON_LIVE,
        "non_live_simple": NON_LIVE[:3],
        "live_ast": LIVE,
        "web_search": WEB_SEARCH,
        "memory": MEMORY,
    },
    "V3": {
        "overall": (*NON_LIVE, "irrelevance", *_V3_LIVE, *MULTI_TURN),
        "non_live": (*NON_LIVE, "irrelevance"),
        "live": _V3_LIVE,
        "multi_turn": MULTI_TURN,
    },
}
"""Version -> mean -> the categories it is the mean of."""

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
                **scores.extra_metrics[name].rates(),
                **scores.extra_metrics[name].intervals_and_pass_at_k(),
                **({"sensitivity": sensitivity(header)} if name == FORMAT_SENSITIVITY else {}),
            }
            for name, (each, header) in scores.with_headers().items()
        },
        "v4": plain(version_4(scores.scores)),
        "v3": plain(version_3(scores.scores)),
        "missing_categories": missing_of(scores, _NEEDED["V4"]["overall"]),
        "invalid": len(scores.invalid),
    }


def sensitivity(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spread of format sensitivity over its configurations, and each one's entry."""
    spread = {name: header[f"accuracy_{name}"] for name in _SPREAD}
    return {
        **spread,
        "configurations": {name: each for name, each in header.items() if isinstance(each, dict)},
    }


def as_text(models: Mapping[str, ModelScores]) -> str:
    """Return a plain table for each model."""
    return "\n\n".join(_table(scores) for scores in models.values())


def _table(scores: ModelScores) -> str:
    rows = [
        ("category", "entries", "accuracy", *next(iter(scores.extra_metrics.values())).columns())
    ]
    rows += [
        (name, str(each.entries), str(each), *scores.extra_metrics[name].cells())
        for name, each in scores.scores.items()
    ]
    for version, named in (("V4", version_4(scores.scores)), ("V3", version_3(scores.scores))):
        blanks = ("",) * (len(rows[0]) - 3)
        for name, each in named.items():
            shown = NOT_SHOWN if missing_of(scores, _NEEDED[version][name]) else str(each)
            rows.append((f"{version} {name.replace('_', ' ')}", "", shown, *blanks))
    lines = [scores.model, aligned(rows), *_missing_lines(scores), *_sensitivity_lines(scores)]
    sampled = {name: each.samples.report() for name, each in scores.extra_metrics.items()}
    if any(sampled.values()):
        lines.append(aligned(sampled_rows(sampled)))
    return "\n".join(lines)


def missing_of(scores: ModelScores, needed: Sequence[str]) -> list[str]:
    """Return which of the needed categories have no results."""
    return [name for name in needed if name not in scores.categories]


def _missing_lines(scores: ModelScores) -> list[str]:
    needed = _NEEDED["V4"]["overall"]
    missing = missing_of(scores, needed)
    if not missing:
        return []
    overall = version_4(scores.scores)["overall"]
    return [
        f"N/A: results are missing. V4 overall needs {len(needed)} categories, {len(missing)} have "
        f"none; counted as 0, as BFCL does, it would be {overall}"
    ]


def _sensitivity_lines(scores: ModelScores) -> list[str]:
    header = scores.categories.get(FORMAT_SENSITIVITY)
    if header is None:
        return []
    figures = sensitivity(header)
    spread = ", ".join(f"{_SPREAD[name]} {figures[name]}" for name in _SPREAD)
    count = len(figures["configurations"])
    lines = [f"format sensitivity, in points over {count} prompt configurations: {spread}"]
    return lines + [
        f"{Score(each['accuracy'], 0)!s:>8}  {name}"
        for name, each in figures["configurations"].items()
    ]
