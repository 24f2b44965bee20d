"""A resumed run of a version with another state hash says so, in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fctncalling.algorithms.config import TrainConfig
from fctncalling.envs.episode_runner import STATE_HASH_VERSION
from fctncalling.training.resume import announce_former_hash


@pytest.mark.parametrize(
    ("versions", "baseline", "lines"),
    [
        ({"fctncalling": "0.3.0"}, "state", 1),
        ({"fctncalling": "0.3.0"}, "none", 0),
        ({"state_hash": STATE_HASH_VERSION}, "state", 0),
    ],
)
def test_a_run_whose_hash_changed_says_so(
    versions: dict[str, str],
    baseline: str,
    lines: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"versions": versions}))
    config = TrainConfig(group_size=4, group_baseline=baseline)
    announce_former_hash(config, tmp_path / "checkpoints" / "update_000001")
    told = "".join(capsys.readouterr())
    assert told.count("\n") == lines
    assert ('info["state_hash"]' in told) == (lines > 0)
