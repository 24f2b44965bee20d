"""Overall scores are BFCL's: the same means, weights and gaps."""

from __future__ import annotations

import pytest

from fctncalling.checkers.leaderboard import (
    LIVE,
    MEMORY,
    MULTI_TURN,
    NON_LIVE,
    SIZES,
    WEB_SEARCH,
    Score,
    version_3_scores,
    version_4_scores,
)

# Accuracies of one results tree, and what BFCL's own evaluator (bfcl-eval 2026.3.23) printed for
# it.
RECORDED = {
    **dict(zip(NON_LIVE, (45 / 400, 9 / 100, 13 / 50, 30 / 200, 31 / 200, 32 / 200), strict=True)),
    **dict(zip(LIVE, (39 / 258, 169 / 1053, 5 / 16, 5 / 24), strict=True)),
    **dict(zip(MULTI_TURN, (0.265, 0.14, 0.17, 0.165), strict=True)),
    **dict(zip(WEB_SEARCH, (0.32, 0.33), strict=True)),
    "irrelevance": 167 / 240,
    "live_irrelevance": 688 / 884,
    "live_relevance": 4 / 16,
    "memory_kv": 39 / 155,
    "memory_rec_sum": 46 / 155,
}


def scores(accuracies: dict[str, float]) -> dict[str, Score]:
    return {category: Score(accuracy, SIZES[category]) for category, accuracy in accuracies.items()}


def test_recorded_tree_scores_as_the_official_evaluator_prints_it() -> None:
    shown = {
        name: str(score)
        for name, score in version_4_scores(scores({**RECORDED, "simple_java": 11 / 100})).items()
    }
    assert shown["non_live_simple"] == "16.08%"
    shown = {name: str(score) for name, score in version_4_scores(scores(RECORDED)).items()}
    assert shown == {
        "overall": "26.24%",
        "non_live": "15.48%",
        "live": "16.14%",
        "irrelevance": "73.71%",
        "multi_turn": "18.50%",
        "agentic": "25.39%",
        "non_live_ast": "15.48%",
        "non_live_simple": "15.42%",
        "live_ast": "16.14%",
        "web_search": "32.50%",
        "memory": "N/A",
    }


def test_every_category_right_is_one_and_none_is_zero_yet_shown() -> None:
    for version in (version_3_scores, version_4_scores):
        assert version(scores(dict.fromkeys(SIZES, 1.0)))["overall"].accuracy == pytest.approx(1.0)
        assert str(version({})["overall"]) == "0.00%"
    assert str(version_4_scores({})["web_search"]) == "N/A"


@pytest.mark.parametrize(
    ("category", "version_3_share", "version_4_share"),
    [
        ("simple_python", 1 / 3 / 5 / 3, 0.1 / 4 / 3),
        ("multiple", 1 / 3 / 5, 0.1 / 4),
        ("irrelevance", 1 / 3 / 5, 0.1 / 2),
        ("live_multiple", 1053 / 2251 / 3, 0.1 * 1053 / 1351),
        ("live_irrelevance", 884 / 2251 / 3, 0.1 / 2),
        ("live_relevance", 16 / 2251 / 3, 0.0),
        ("multi_turn_base", 1 / 3 / 4, 0.3 / 4),
        ("web_search_base", 0.0, 0.4 / 2 / 2),
        ("memory_vector", 0.0, 0.4 / 2 / 3),
    ],
)
def test_a_category_alone_gives_its_share_of_the_overall_scores(
    category: str, version_3_share: float, version_4_share: float
) -> None:
    alone = scores({category: 1.0})
    assert version_3_scores(alone)["overall"].accuracy == pytest.approx(version_3_share)
    assert version_4_scores(alone)["overall"].accuracy == pytest.approx(version_4_share)


def test_sizes_are_those_of_the_scored_categories() -> None:
    assert len(SIZES) == len(NON_LIVE) + 1 + len(LIVE) + 2 + len(MULTI_TURN) + len(
        WEB_SEARCH
    ) + len(MEMORY)
    assert sum(SIZES.values()) == 2501 + 1140 + 800 + 665
