"""`check` finds what its path is, and says of it what the command of that kind says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluate_fctncalling import main

DOC = {
    "name": "add",
    "description": "Add two numbers.",
    "parameters": {"type": "dict", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}
TASK = {
    "id": "simple_python_0",
    "question": [[{"role": "user", "content": "Add 1 to it."}]],
    "function": [DOC],
    "ground_truth": [{"add": {"a": [1]}}],
}
IMPOSSIBLE = {**TASK, "id": "simple_python_1", "ground_truth": [{"add": {"b": [1]}}]}
ANSWER = {
    "category": "simple_python",
    "form": "prompting",
    "id": "simple_python_0",
    "response": "add(a=1) is what I would call",
    "dataset_path": "tasks.json",
}


def check(
    capsys: pytest.CaptureFixture[str], path: Path, *more: str
) -> tuple[int, dict[str, Any], list[tuple[str, str]]]:
    """Return the exit code, the report, and (check, level) of each finding."""
    capsys.readouterr()
    code = main(["check", str(path), "--json", *more])
    report = json.loads(capsys.readouterr().out)
    assert report["exit_code"] == code
    return code, report, [(each["check"], each["level"]) for each in report["findings"]]


def test_tasks_answers_and_runs_are_told_apart_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tasks, answers, log = Path("tasks.json"), Path("in.jsonl"), Path("run/episodes/1.jsonl")
    tasks.write_text(json.dumps(TASK) + "\n" + json.dumps(IMPOSSIBLE))
    code, report, found = check(capsys, tasks)
    assert (code, report["kind"]) == (1, "tasks")
    assert ("truth_rejected", "impossible") in found
    assert ("oracle", "fault") in found
    assert main(["check", str(tasks)]) == 1
    assert "FAULT truth_rejected    simple_python_1: " in capsys.readouterr().out

    answers.write_text(json.dumps(ANSWER))
    code, report, found = check(capsys, answers)
    assert (code, report["kind"]) == (0, "answers")
    assert found == [("simple_python", "sound"), ("simple_python", "note")]
    assert "text around the calls: 1 of 1" in report["findings"][1]["message"]

    tasks.write_text(json.dumps(TASK))
    played = ["run", "--agent", "oracle", "--dataset_path", str(tasks), "--output", str(log)]
    assert main(played) == 0
    assert check(capsys, Path("run"))[::2] == (0, [("replay", "sound")])
    log.write_text(log.read_text().replace('"valid": true', '"valid": false'))
    code, report, found = check(capsys, Path("run"))
    assert (code, report["kind"]) == (1, "run")
    assert ("replay", "fault") in found
    assert main(["check", "nowhere"]) == 2
    assert "nowhere: there is no such file or folder: expected" in capsys.readouterr().err
