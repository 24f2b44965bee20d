"""Plans of multi-turn tasks."""

from __future__ import annotations

from forge_sample_plans import sample_plans


def test_sample_plans_replay_without_an_error() -> None:
    plans = sample_plans(12)
    assert plans == sample_plans(12)
    results = [call.result for plan in plans for turn in plan.turns for call in turn.calls]
    assert results
    assert not any("rror" in text for text in results)
