"""The speedrun board: the page says what the kept runs hold, on the frozen files."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fctncalling.cli.train import parse_settings

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/jobs"))
from speedrun import ARMS, KEPT, Speedrun, changed_files, read_runs

PAGE = (Path(__file__).parents[2] / "docs/evidence/performance.md").read_text(encoding="utf-8")


def runs_of(arm: str) -> list[Speedrun]:
    return [run for run in read_runs(KEPT) if run.arm == arm]


def commands() -> Iterator[list[str]]:
    """Yield the words of the page's training commands."""
    for block in PAGE.split("```")[1::2]:
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("fctncalling train"):
                yield shlex.split(line)[2:]


def test_tasks_and_model_are_the_frozen_ones() -> None:
    assert changed_files() == []


def test_the_page_has_the_command_of_the_record() -> None:
    told = [parse_settings(words) for words in commands()]
    assert told == [parse_settings(ARMS["record"].split())]
    assert parse_settings(ARMS["TPPO"].split()) == parse_settings([])


@pytest.mark.parametrize("arm", ARMS)
def test_the_runs_of_an_arm_had_its_settings(arm: str) -> None:
    assert {run.flags for run in runs_of(arm)} <= {ARMS[arm]}
