"""The speedrun board: kept runs have the settings of their arms, on the frozen files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fctncalling.cli.train import parse_settings

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/jobs"))
from speedrun import ARMS, KEPT, Speedrun, changed_files, read_runs


def runs_of(arm: str) -> list[Speedrun]:
    return [run for run in read_runs(KEPT) if run.arm == arm]


def test_tasks_and_model_are_the_frozen_ones() -> None:
    assert changed_files() == []


def test_the_arm_tppo_has_the_defaults() -> None:
    assert parse_settings(ARMS["TPPO"].split()) == parse_settings([])


@pytest.mark.parametrize("arm", ARMS)
def test_the_runs_of_an_arm_had_its_settings(arm: str) -> None:
    assert {run.flags for run in runs_of(arm)} <= {ARMS[arm]}
