"""Ours and the official package's verdicts are the same, on answers anybody can have judged.

`benchmarks/peers/official_checkers.py` tells how the file is made; the tables of the shared data
are far larger.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import VerdictCounter

from fctncalling.cli.shared.jsonl_records import read_records
from fctncalling.cli.verdicts import RecordJudge
from fctncalling.data.paths import official_data_folder


def recorded() -> Path:
    """Return the file of recorded verdicts; skip, saying how to make it, where there is none."""
    default = official_data_folder() / "verdicts" / "official.jsonl"
    path = Path(os.environ.get("FCTNCALLING_VERDICTS", default))
    if not path.is_file():
        pytest.skip("needs official verdicts: benchmarks/peers/official_checkers.py makes them")
    return path


def test_verdicts_recorded_from_the_official_package_are_ours(
    shared: Path, verdict_counter: VerdictCounter
) -> None:
    judge = RecordJudge(shared / "bfcl/data")
    lines = list(read_records(recorded()))
    different = [line for line in lines if judge.judge_record(line) != line.record]
    assert {line.record["valid"] for line in lines} == {True, False}
    assert different == []
    verdict_counter.add(len(lines))
