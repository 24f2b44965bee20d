"""The evaluation command line: same records out as in, one clear message where it cannot read, nothing half-written."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from evaluate_fctncalling import SUBCOMMANDS, main

ENTRY = {
    "id": "simple_python_0",
    "question": [[{"role": "user", "content": "Add 1 and 2."}]],
    "function": [
        {
            "name": "add",
            "description": "Add.",
            "parameters": {
                "type": "dict",
                "properties": {
                    "a": {"type": "integer", "description": ""},
                    "b": {"type": "integer", "description": ""},
                },
                "required": ["a", "b"],
            },
        }
    ],
}
ANSWER = {"id": "simple_python_0", "ground_truth": [{"add": {"a": [1], "b": [2]}}]}
RECORD = {"category": "simple_python", "form": "prompting", "id": "simple_python_0", "response": "[add(a=1, b=2)]"}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "possible_answer").mkdir(parents=True)
    (folder / "BFCL_v4_simple_python.json").write_text(json.dumps(ENTRY) + "\n")
    (folder / "possible_answer" / "BFCL_v4_simple_python.json").write_text(json.dumps(ANSWER) + "\n")
    return folder


def run(subcommand: str, data_dir: Path, source: Path, target: Path) -> int:
    return main([subcommand, "--data_dir", str(data_dir), "--input", str(source), "--output", str(target)])


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_records_come_back_in_order_with_their_keys_and_our_verdict(data_dir: Path, tmp_path: Path) -> None:
    wrong = {**RECORD, "response": "[add(a=1, b=3)]", "valid": True, "note": "kept"}
    source = write(tmp_path / "in.jsonl", RECORD, wrong)
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    expected = [
        {**RECORD, "valid": True, "error_type": None},
        {**wrong, "valid": False, "error_type": "value_error:others"},
    ]
    for given in (source, packed):
        target = tmp_path / "deep" / "out.jsonl"
        assert run("verdicts", data_dir, given, target) == 0
        out = [json.loads(line) for line in target.read_text().splitlines()]
        assert out == expected
        assert list(out[1]) == [*wrong, "error_type"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": "simple_python_9"}, 'field "id": no task of simple_python .* is called "simple_python_9"'),
        ({"id": 5}, 'field "id": expected a task.s id, got 5'),
        ({"category": "multiple"}, 'field "category": no task file .*BFCL_v4_multiple.json'),
        ({"category": "exec_simple"}, 'field "category": .*"exec_simple"'),
        ({"form": "telepathy"}, 'field "form": expected one of prompting, tool_call, decoded_calls, got "telepathy"'),
        ({"form": "decoded_calls"}, "decoded_calls is for multi-turn"),
    ],
)
def test_a_bad_record_is_told_by_file_line_and_field(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], told: str
) -> None:
    source, target = write(tmp_path / "in.jsonl", RECORD, {**RECORD, **change}), tmp_path / "out.jsonl"
    assert run("verdicts", data_dir, source, target) == 2
    errors = capsys.readouterr().err
    assert len(errors.splitlines()) == 1
    assert f"{source} line 2: " in errors
    assert re.search(told, errors)
    assert sorted(tmp_path.iterdir()) == [data_dir, source]


@pytest.mark.parametrize("text", ["[]\n", "{broken\n", '"text"\n'])
def test_a_line_that_is_no_object_is_told(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(text)
    for subcommand in ("verdicts", "execute"):
        assert run(subcommand, data_dir, source, tmp_path / "out.jsonl") == 2
        assert f"{source} line 1: expected a JSON object" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def test_a_missing_input_is_told(data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verdicts", data_dir, tmp_path / "none.jsonl", tmp_path / "out.jsonl") == 2
    assert "none.jsonl: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("subcommand", sorted(SUBCOMMANDS))
def test_every_subcommand_shows_an_example(subcommand: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([subcommand, "--help"])
    assert exit_.value.code == 0
    assert f"evaluate_fctncalling.py {subcommand} " in capsys.readouterr().out.split("example", 1)[1]


def test_an_unknown_subcommand_is_told_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["dance"])
    assert exit_.value.code == 2
    errors = capsys.readouterr().err
    assert all(name in errors for name in SUBCOMMANDS)
