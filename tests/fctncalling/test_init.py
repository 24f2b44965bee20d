"""`init` writes a project that works as it is: its tests pass and its settings train."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluate_fctncalling import main
from fctncalling.cli.train import main as train

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "lamps"
    assert main(["init", str(folder)]) == 0
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in ("my_tools", "my_reward"):
        sys.modules.pop(name, None)


def test_its_own_tests_pass(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_three_commands_it_prints_train_look_and_score(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "again"]) == 0
    printed = capsys.readouterr().out.replace("\\\n", " ").splitlines()
    lines = [shlex.split(line)[1:] for line in printed if line.startswith("fctncalling ")]
    assert [line[0] for line in lines] == ["train", "view", "run"]
    assert lines[0] == ["train", "--config", "config.yaml"]
    words = ["lint", "--dataset_path", "tasks.jsonl", "--tools", "Lamps=my_tools:Lamps"]
    assert main(words) == 0
    assert main(words[:-2]) == 2
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert "--tools Lamps=MODULE:CLASS" in message
    assert len(message) < 280
    short = ["--num_updates=1", "--sft_epochs=1", "--episodes_per_update=4", "--eval_episodes=2"]
    short += ["--num_mini_batch=1", "--tensorboard=false", "--save_interval=1"]
    assert train(["--config", "config.yaml", *short]) == 0
    [evaluation] = (project / "results" / "lamps").rglob("evaluation.json")
    told = json.loads(evaluation.read_text())
    assert told["episodes"] == 4
    assert 0.0 <= told["after"]["greedy"] <= 1.0
    capsys.readouterr()
    assert [main(line) for line in lines[1:]] == [0, 0]
    told = capsys.readouterr().out
    assert "\nmulti_turn_base         8 " in told
    following = [shlex.split(line) for line in told.splitlines() if line.startswith("next: ")]
    assert following[0][2] == "export"
    assert [main(line[2:]) for line in following] == [0, 0], "each next command works as printed"


@pytest.mark.prove
def test_its_settings_as_written_teach_the_embedded_model(project: Path) -> None:
    assert train(["--config", "config.yaml"]) == 0
    [evaluation] = (project / "results" / "lamps").rglob("evaluation.json")
    told = json.loads(evaluation.read_text())
    assert told["base"]["greedy"] == 0.0
    assert told["after"]["greedy"] >= 0.75


def test_a_folder_with_files_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["init", str(tmp_path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"{tmp_path}: cannot be written: the folder is not empty: name a new one" in line
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
