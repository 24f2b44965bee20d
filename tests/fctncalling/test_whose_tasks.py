"""Answers are judged against the tasks they answer, never against others of the same ids."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evaluate_fctncalling import main
from fctncalling.data.bfcl import embedded_path, load_tasks


def own_entry(task_id: str, word: str) -> dict[str, Any]:
    doc = {
        "name": "paint",
        "description": "Paint.",
        "parameters": {
            "type": "dict",
            "properties": {"colour": {"type": "string", "description": "which"}},
            "required": ["colour"],
        },
    }
    return {
        "id": task_id,
        "question": [[{"role": "user", "content": f"Paint it {word}."}]],
        "function": [doc],
        "ground_truth": [{"paint": {"colour": [word]}}],
    }


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of the oracle on own tasks whose ids embedded tasks have, too."""
    monkeypatch.chdir(tmp_path)
    embedded = [task.id for task in load_tasks(embedded_path("held_out"))]
    ids = [next(each for each in embedded if each.startswith(name)) for name in ("mult", "simple")]
    Path("mine.json").write_text(json.dumps([own_entry(each, "red") for each in ids]))
    told = ["run", "--agent", "oracle", "--dataset_path", "mine.json", "--output", "run.jsonl"]
    assert main(told) == 0
    return tmp_path


def judging(command: str, path: Path) -> list[str]:
    more = ["--output", "out.jsonl"] if command == "verdicts" else []
    return [command, *(["--input"] if command != "why" else []), str(path), *more]


def rates(report: Any, command: str) -> list[float]:
    """Return the share of right answers by category from the JSON of a command."""
    if command == "score":
        [scored] = report.values()
        return [each["accuracy"] for each in scored["categories"].values()]
    [categories] = report["models"].values()
    return [each["rates"]["valid"] for each in categories.values()]


@pytest.mark.parametrize("command", ["why", "score"])
@pytest.mark.parametrize("flag", ["", "--dataset_path", "--data_dir"])
def test_own_answers_are_judged_against_own_tasks(
    command: str, flag: str, played: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [flag, "mine.json"] if flag else []
    capsys.readouterr()
    assert main([*judging(command, played / "run.jsonl"), *more, "--json"]) == 0
    assert rates(json.loads(capsys.readouterr().out), command) == [1.0, 1.0]
    assert main([*judging("verdicts", played / "run.jsonl"), *more]) == 0
    lines = Path("out.jsonl").read_text().splitlines()
    assert [json.loads(line)["valid"] for line in lines] == [True, True]
    assert main(["replay", "--input", "run.jsonl", *more]) == 0


@pytest.mark.parametrize("changed", ["ground truth", "first message"])
@pytest.mark.parametrize("command", ["why", "score", "verdicts"])
def test_other_tasks_of_the_same_ids_are_refused(
    command: str, changed: str, played: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [own_entry(each["id"], "blue") for each in json.loads(Path("mine.json").read_text())]
    if changed == "first message":
        entries = [
            {**each, "ground_truth": own_entry("", "red")["ground_truth"]} for each in entries
        ]
    Path("other.json").write_text(json.dumps(entries))
    capsys.readouterr()
    assert main([*judging(command, played / "run.jsonl"), "--dataset_path", "other.json"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"other.json has another task of this id: its {changed} is not the record's" in line
    assert "by --dataset_path" in line


@pytest.mark.parametrize("command", ["why", "score"])
def test_tasks_that_moved_along_are_found_and_without_them_nothing_is_judged(
    command: str, played: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = played / "elsewhere"
    moved.mkdir()
    for name in ("run.jsonl", "mine.json"):
        shutil.move(played / name, moved)
    monkeypatch.chdir("/")
    command_line = judging(command, moved / "run.jsonl")
    assert main(command_line) == 0
    (moved / "mine.json").unlink()
    capsys.readouterr()
    assert main(command_line) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "--dataset_path" in line


@pytest.mark.usefixtures("played")
def test_a_result_tree_says_which_tasks_it_answers(capsys: pytest.CaptureFixture[str]) -> None:
    told = ["run", "--agent", "oracle", "--dataset_path", "mine.json", "--output", "again.jsonl"]
    assert main([*told, "--result_dir", "result"]) == 0
    capsys.readouterr()
    assert main(["score", "--input", "result", "--json"]) == 0
    assert rates(json.loads(capsys.readouterr().out), "score") == [1.0, 1.0]


def test_a_folder_with_some_categories_is_played_as_far_as_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "forged"
    folder.mkdir()
    for category in ("parallel", "multiple"):
        entry = own_entry(f"{category}_0", "red")
        (folder / f"BFCL_v4_{category}.json").write_text(json.dumps(entry) + "\n")
    run = ["run", "--agent", "oracle", "--dataset_path", "forged", "--json", "--output"]
    assert main([*run, "out.jsonl"]) == 0
    played = json.loads(capsys.readouterr().out)["categories"]
    assert {name: each["accuracy"] for name, each in played.items()} == {
        "multiple": 1.0,
        "parallel": 1.0,
    }
    assert main([*run, "2.jsonl", "--category", "multiple", "simple_python"]) == 2
    assert "there is no task file of category simple_python" in capsys.readouterr().err
