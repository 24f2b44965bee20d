"""`fctncalling credit` keeps its contract on a real run, and tells what cannot be graded."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fctncalling.cli.evaluate import main
from fctncalling.cli.train import main as train
from fctncalling.lab.credit.command import grades_text

ESTIMATORS = {"TPPO", "APPO", "POAD", "NTPO", "GRPO", "state_matched", "leave_one_out"}
VALUES = {"constant", "siblings", "state", "critic"} | {
    f"critic_{name}" for name in ("last", "layers", "truth", "mistakes", "head", "bins", "body")
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    flags = ["--num_updates", "1", "--episodes_per_update", "16", "--eval_episodes", "4"]
    assert train([*flags, "--results_dir", str(results)]) == 0
    return next(results.glob("*/*/*/*"))


def numbers(value: Any) -> Iterator[float]:
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            yield from numbers(each)
        elif not isinstance(each, str):
            yield each


def test_the_grades_keep_their_contract(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "grades.json"
    flags = [
        "--tasks",
        "3",
        "--critic_tasks",
        "12",
        "--max_branches",
        "4",
        "--body_epochs",
        "1",
        "--json",
        str(file),
    ]
    assert main(["credit", str(run), *flags]) == 0
    grades = json.loads(file.read_text())
    assert set(grades["values"]) >= VALUES
    assert set(grades["estimators"]) >= ESTIMATORS
    for row in grades["values"].values():
        assert {"explained_variance", "between", "within"} <= set(row)
    for row in grades["estimators"].values():
        assert {"sign", "spearman"} <= set(row)
    assert all(isinstance(each, int | float) and math.isfinite(each) for each in numbers(grades))
    truth = grades["truth"]
    assert truth["same_token_prefix"] == truth["states"]
    assert truth["cpu_ms_a_branch"] > 0
    depths = truth["standard_error_by_action"]
    assert list(depths) == [str(depth) for depth in range(len(depths))]
    coverage = grades["coverage"]
    assert coverage["by_action"]["0"] == 1  # a group begins in one state
    assert list(coverage["by_turn"]) == [str(turn) for turn in range(len(coverage["by_turn"]))]
    variance = truth["return_variance"]
    assert list(variance["by_turn"]) == list(coverage["by_turn"])
    assert variance["between_tasks"] + sum(variance["by_turn"].values()) == pytest.approx(1)
    for row in grades["values"].values():
        assert list(row["by_turn"]) == list(coverage["by_turn"])
    for row in grades["estimators"].values():
        assert row["cosine_interval"][0] <= row["cosine_interval"][1]
    assert (run / "credit" / "last.png").stat().st_size > 10_000
    # Where no action matters, or no pair of a state differs, a share of them is no figure.
    truth["significant"] = 0.0
    for row in grades["estimators"].values():
        row["ranking"]["clear_pairs"] = 0.0
    table = grades_text(grades).split("\n\n")[-1].splitlines()
    [constant] = [line.split() for line in table if line.split()[0] == "constant"]
    assert constant[1:4] == ["-"] * 3
    assert constant[-1] == "-"
    assert constant[4] != "-"


def test_the_viewer_shows_true_credit_beside_the_critics(run: Path, tmp_path: Path) -> None:
    flags = ["--tasks", "2", "--group_size", "2", "--critic_tasks", "0", "--max_branches", "2"]
    assert main(["credit", str(run), *flags]) == 0
    graded = run / "credit" / "last.jsonl"
    page = tmp_path / "view.html"
    assert main(["view", str(graded), "--output", str(page)]) == 0
    packed = re.search(r'<script id="data"[^>]*>([^<]*)<', page.read_text())
    assert packed is not None
    shown = json.loads(gzip.decompress(base64.b64decode(packed[1])))["episodes"]
    assert len(shown) == 4
    for episode in shown:  # A = r + discount V' - V, V = 0 behind the end
        own = episode["steps"]
        assert set(own[0]["credit"]) == {"V", "A", "standard_error", "critic", "TPPO"}
        after = [*(step["credit"]["V"] for step in own[1:]), 0.0]
        for step, value in zip(own, after, strict=True):
            wanted = step["reward"] + 0.99 * value - step["credit"]["V"]
            assert step["credit"]["A"] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--update", "7"], "no such checkpoint; there: 1"),
        (["--group_size", "1"], "--group_size: got 1, expected at least 2"),
    ],
)
def test_what_cannot_be_graded_is_told(
    run: Path, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["credit", str(run), *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_without_a_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["credit", str(tmp_path)]) == 2
    assert "no run is there (no config.json)" in capsys.readouterr().err
