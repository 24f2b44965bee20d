"""Actions that are cut: a warning where most are, and an end where that is all there is."""

from __future__ import annotations

import dataclasses

import pytest
from token_worlds import episode, settings

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.run.episode_metrics import AllCutError, CutActionMonitor


def played(*, steps: int = 2, cut: int = 0, earned: float = 0.0) -> EpisodeRecord:
    record = episode([(2, 0.0)], terminated=True)
    return dataclasses.replace(
        record, num_steps=steps, num_actions_truncated=cut, episode_return=earned
    )


def test_most_actions_cut_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    watch = CutActionMonitor(settings())
    watch.check([played(cut=1), played(cut=1)])  # a half is not most
    assert not caplog.records
    for _ in range(2):
        watch.check([played(cut=2), played(cut=1)])
    [line] = caplog.messages
    assert "3 of 4 actions were cut" in line
    assert "--max_new_tokens" in line


def test_the_run_ends_where_for_long_every_action_was_cut_for_nothing() -> None:
    watch = CutActionMonitor(settings(cut_patience=3))
    hopeless = [played(cut=2), played(cut=2), played(steps=0)]
    for episodes in (
        hopeless,
        hopeless,
        [*hopeless, played(cut=1)],  # one came to its end
        hopeless,
        hopeless,
        [played(cut=2, earned=1.0), *hopeless],  # or earned more than others
        hopeless,
        hopeless,
    ):
        watch.check(episodes)
    with pytest.raises(AllCutError, match=r"in 3 updates in a row .* --cut_patience 0"):
        watch.check(hopeless)


def test_patience_zero_never_ends() -> None:
    watch = CutActionMonitor(settings(cut_patience=0))
    for _ in range(20):
        watch.check([played(cut=2)])
