"""Curves beside the files: what is not installed is told at the start, what is gets every finite
number.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.run.logs import Trackers

# Stands for wandb: it keeps what it is told.
STAND_IN = """
told = []

class Run:
    def define_metric(self, *names, **options):
        told.append(("axis", options["step_metric"]))

    def log(self, values):
        told.append(("log", values))

    def finish(self):
        told.append(("finish", None))

def init(**options):
    told.append(("init", options))
    return Run()
"""


@pytest.fixture
def _wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "wandb.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    importlib.invalidate_caches()
    yield
    sys.modules.pop("wandb", None)


@pytest.mark.usefixtures("_wandb")
def test_wandb_gets_finite_numbers_by_update_and_a_resumed_run_its_own_curves(
    tmp_path: Path,
) -> None:
    ids = []
    for _ in range(2):
        trackers = Trackers(tmp_path / "a" / "run", {"lr": 0.1}, tensorboard=False, wandb="offline")
        trackers.log_scalars(3, {"x": 1.5, "absent": None, "nan": math.nan})
        trackers.close()
        told = sys.modules["wandb"].told
        assert [kind for kind, _ in told] == ["init", "axis", "log", "finish"]
        assert told[2][1] == {"update": 3, "x": 1.5}
        assert (told[0][1]["mode"], told[0][1]["resume"], told[0][1]["config"]) == (
            "offline",
            "allow",
            {"lr": 0.1},
        )
        ids.append(told[0][1]["id"])
        told.clear()
    assert ids[0] == ids[1]


def test_wandb_that_is_not_installed_is_told_before_anything_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        SettingError, match="--wandb: got online, but wandb is not installed: pip install wandb"
    ):
        Trackers(tmp_path, {}, tensorboard=False, wandb="online")
    Trackers(tmp_path, {}, tensorboard=False, wandb="off").close()
