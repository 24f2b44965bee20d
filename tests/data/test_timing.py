"""Timing hook: silent by default, one listener in a block, and the timed function as it was."""

from __future__ import annotations

import time

import pytest

from fctncalling.data.timing import listen_to_timings, time_calls


@time_calls("nap")
def nap(seconds: float, *, fails: bool = False) -> str:
    """Sleep."""
    time.sleep(seconds)
    if fails:
        raise OSError("disturbed")
    return "slept"


def test_each_call_of_a_part_is_reported_while_somebody_listens() -> None:
    found: list[tuple[str, float, float]] = []
    assert nap(0.0) == "slept"
    with listen_to_timings(lambda *call: found.append(call)):
        nap(0.02)
        with pytest.raises(OSError, match="disturbed"):
            nap(0.0, fails=True)
    nap(0.0)
    assert [part for part, _, _ in found] == ["nap", "nap"]
    assert found[0][1] >= 0.02 > found[0][2]  # it waits, and computes nothing
    assert nap.__doc__ == "Sleep."
