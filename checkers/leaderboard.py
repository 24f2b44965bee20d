"""BFCL's overall scores, version 3 and version 4, from accuracies by category.

A category without results counts as 0, and so does its share of every mean above it; what is shown
for it, and for a mean that lacks it, is "N/A" (the overall scores are always shown). Additions are
made in BFCL's order, so that the last digit agrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

NON_LIVE = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
)
LIVE = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
MULTI_TURN = (
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
)
WEB_SEARCH = ("web_search_base", "web_search_no_snippet")
MEMORY = ("memory_kv", "memory_vector", "memory_rec_sum")

SIZES = {
    **dict(zip(NON_LIVE, (400, 100, 50, 200, 200, 200), strict=True)),
    "irrelevance": 240,
    **dict(zip(LIVE, (258, 1053, 16, 24), strict=True)),
    "live_irrelevance": 884,
    "live_relevance": 16,
    **dict.fromkeys(MULTI_TURN, 200),
    **dict.fromkeys(WEB_SEARCH, 100),
    **dict.fromkeys(MEMORY, 155),
}
"""Scored category -> how many entries BFCL has; the weight in a weighted mean of one without
results.
"""

_V4_WEIGHTS = (10, 10, 10, 30, 40)  # percent


class Score(NamedTuple):
    """Accuracy (0..1) over a number of entries."""

    accuracy: float
    entries: int
    shown: bool = True  # False: "N/A", for results are missing

    def __str__(self) -> str:
        return f"{self.accuracy * 100:.2f}%" if self.shown else "N/A"


Scores = Mapping[str, Score]


def category_score(scores: Scores, category: str) -> Score:
    """Return the score of a category; without results 0 over all its entries, printed as N/A."""
    return scores.get(category) or Score(0.0, SIZES[category], shown=False)


def mean(parts: Sequence[Score], *, always_shown: bool = False) -> Score:
    """Return the unweighted mean of scores."""
    total = 0.0
    for part in parts:
        total += part.accuracy
    return Score(
        total / len(parts),
        sum(part.entries for part in parts),
        always_shown or all(p.shown for p in parts),
    )


def weighted_mean(parts: Sequence[Score], *, always_shown: bool = False) -> Score:
    """Return the mean of scores weighted by their numbers of entries."""
    count, total = 0, 0.0
    for part in parts:
        count += part.entries
        total += part.accuracy * part.entries
    return Score(
        total / count if count else 0.0, count, always_shown or all(part.shown for part in parts)
    )


def version_4_scores(scores: Scores) -> dict[str, Score]:
    """Return BFCL's leaderboard scores of version 4: the summaries and "overall"."""
    part = {category: category_score(scores, category) for category in SIZES}
    simple = mean([part[category] for category in NON_LIVE[:3]])
    non_live_parts = [simple, *(part[category] for category in NON_LIVE[3:])]
    live_parts = [part[category] for category in LIVE]
    web_search, memory = (
        mean([part[category] for category in group]) for group in (WEB_SEARCH, MEMORY)
    )
    summary = {
        "non_live": mean(non_live_parts, always_shown=True),
        "live": weighted_mean(live_parts, always_shown=True),
        "irrelevance": mean([part["irrelevance"], part["live_irrelevance"]]),
        "multi_turn": mean([part[category] for category in MULTI_TURN], always_shown=True),
        "agentic": mean([web_search, memory], always_shown=True),
    }
    weight_sum, overall = sum(_V4_WEIGHTS), 0.0
    for score, weight in zip(summary.values(), _V4_WEIGHTS, strict=True):
        overall += score.accuracy * (weight / weight_sum)
    return {
        "overall": Score(overall, sum(score.entries for score in summary.values())),
        **summary,
        "non_live_ast": mean(non_live_parts),
        "non_live_simple": simple,
        "live_ast": weighted_mean(live_parts),
        "web_search": web_search,
        "memory": memory,
    }


def version_3_scores(scores: Scores) -> dict[str, Score]:
    """Return BFCL's leaderboard scores of version 3, in use before July 2025.

    Irrelevance is part of its non-live and live means.
    """
    part = {category: category_score(scores, category) for category in SIZES}
    simple = mean([part[category] for category in NON_LIVE[:3]])
    parts = [
        mean(
            [simple, *(part[category] for category in (*NON_LIVE[3:], "irrelevance"))],
            always_shown=True,
        ),
        weighted_mean(
            [part[category] for category in (*LIVE, "live_irrelevance", "live_relevance")],
            always_shown=True,
        ),
        mean([part[category] for category in MULTI_TURN], always_shown=True),
    ]
    return {
        "overall": mean(parts, always_shown=True),
        "non_live": parts[0],
        "live": parts[1],
        "multi_turn": parts[2],
    }
