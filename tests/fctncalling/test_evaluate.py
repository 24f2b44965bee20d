"""The evaluation command line: same records out as in, one clear message where it cannot read,
nothing half-written.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fctncalling.cli.evaluate import main
from fctncalling.cli.execute import RecordExecutor
from fctncalling.cli.registry import subcommands
from fctncalling.cli.shared.jsonl_records import SourceRecord
from fctncalling.cli.shared.task_finder import TaskStore
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task

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
RECORD = {
    "category": "simple_python",
    "form": "prompting",
    "id": "simple_python_0",
    "response": "[add(a=1, b=2)]",
}


FILES = {"root": {"home": {"type": "directory", "contents": {}}}}


def folder_task(number: int, scenario: Any) -> dict[str, Any]:
    """Return a task that makes a folder; a scenario that is none is a failure of ours, not of who
    answers.
    """
    return {
        "id": f"multi_turn_base_{number}",
        "question": [[{"role": "user", "content": "Make x."}]],
        "function": [],
        "involved_classes": ["GorillaFileSystem"],
        "initial_config": {"GorillaFileSystem": scenario},
        "ground_truth": [["mkdir(dir_name='x')"]],
    }


@pytest.fixture
def broken_dir(tmp_path: Path) -> Path:
    """A folder of three tasks of which the second's tools cannot be loaded."""
    folder = tmp_path / "broken"
    folder.mkdir()
    write(
        folder / "BFCL_v4_multi_turn_base.json",
        *map(folder_task, range(3), (FILES, {"root": 5}, FILES)),
    )
    return folder


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "possible_answer").mkdir(parents=True)
    (folder / "BFCL_v4_simple_python.json").write_text(json.dumps(ENTRY) + "\n")
    (folder / "possible_answer" / "BFCL_v4_simple_python.json").write_text(
        json.dumps(ANSWER) + "\n"
    )
    return folder


def run(subcommand: str, data_dir: Path, source: Path, target: Path) -> int:
    return main(
        [subcommand, "--data_dir", str(data_dir), "--input", str(source), "--output", str(target)]
    )


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_a_near_miss_of_a_flag_or_a_subcommand_is_told_in_one_line_with_what_is_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, meant in (
        (["run", "--agent", "noop", "--output", "o", "--limits", "3"], "--limit"),
        (["scor"], "score"),
        (["run", "--agent", "noop", "--output", "o", "--form", "tool_cal"], "tool_call"),
    ):
        with pytest.raises(SystemExit):
            main(words)
        [line] = capsys.readouterr().err.splitlines()
        assert f"is {meant} meant?" in line


def test_the_flags_of_run_and_score_are_grouped_and_show_what_they_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for subcommand, first in (("run", "--agent AGENT"), ("score", "PATH")):
        with pytest.raises(SystemExit):
            main([subcommand, "--help"])
        _, told = capsys.readouterr().out.split("\nbasic:\n")
        assert told.strip().startswith(first)
        assert "{prompting,tool_call" in told
        assert "VALUE" not in told


def test_records_come_back_in_order_with_their_keys_and_our_verdict(
    data_dir: Path, tmp_path: Path
) -> None:
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
        (
            {"id": "simple_python_9"},
            'field "id": no task of simple_python .* is called "simple_python_9"',
        ),
        ({"id": 5}, 'field "id": expected a task.s id, got 5'),
        ({"category": "multiple"}, 'field "category": no task file .*BFCL_v4_multiple.json'),
        ({"category": "exec_simple"}, 'field "category": .*"exec_simple"'),
        (
            {"form": "telepathy"},
            'field "form": expected one of prompting, tool_call, .*, got "telepathy"',
        ),
        ({"form": "decoded_calls"}, "decoded_calls is for multi-turn"),
    ],
)
def test_a_bad_record_is_told_by_file_line_and_field(
    data_dir: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    told: str,
) -> None:
    source, target = (
        write(tmp_path / "in.jsonl", RECORD, {**RECORD, **change}),
        tmp_path / "out.jsonl",
    )
    assert run("verdicts", data_dir, source, target) == 2
    errors = capsys.readouterr().err
    assert len(errors.splitlines()) == 1
    assert f"{source} line 2: " in errors
    assert re.search(told, errors)
    assert sorted(tmp_path.iterdir()) == [data_dir, source]


def test_what_was_judged_is_counted(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {**RECORD, "response": "[add(a=1, b=3)]"}
    source = write(
        tmp_path / "in.jsonl", RECORD, wrong, {**RECORD, "response": None, "invalid": True}
    )
    target = tmp_path / "out.jsonl"
    arguments = [
        "verdicts",
        "--data_dir",
        str(data_dir),
        "--input",
        str(source),
        "--output",
        str(target),
    ]
    assert main([*arguments, "--json"]) == 1, "a record that came in as invalid is told"
    counts = {"records": 3, "valid": 1, "invalid": 1}
    report = json.loads(capsys.readouterr().out)
    assert report == {"output": str(target), **counts, "categories": {"simple_python": counts}}
    assert main(arguments) == 1
    assert capsys.readouterr().out == f"{target}: 3 records, 1 valid, 1 not, 1 invalid\n"
    assert json.loads(target.read_text().splitlines()[-1])["valid"] is None


def test_a_failure_of_our_tools_makes_its_record_invalid_and_the_others_are_judged(
    broken_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {
        "category": "multi_turn_base",
        "form": "decoded_calls",
        "response": [["mkdir(dir_name='x')"]],
    }
    source = write(
        tmp_path / "in.jsonl",
        *({"id": f"multi_turn_base_{number}", **record} for number in range(3)),
    )
    assert run("verdicts", broken_dir, source, tmp_path / "out.jsonl") == 1
    out = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(each["valid"], each.get("invalid")) for each in out] == [
        (True, None),
        (None, True),
        (True, None),
    ]
    assert "GorillaFileSystem" in out[1]["invalid_reason"]
    assert "1 records are invalid; the first: multi_turn_base_1" in capsys.readouterr().err
    answers = write(tmp_path / "answers.jsonl", *({"id": each["id"], **record} for each in out))
    assert main(["score", "--input", str(answers), "--data_dir", str(broken_dir), "--json"]) == 1
    [report] = json.loads(capsys.readouterr().out).values()
    assert (report["categories"]["multi_turn_base"]["total"], report["invalid"]) == (2, 1)


def test_calls_on_tools_that_failed_are_invalid_and_the_others_are_executed(
    broken_dir: Path, tmp_path: Path
) -> None:
    calls = [
        {
            "category": "multi_turn_base",
            "id": f"multi_turn_base_{number}",
            "turn": 0,
            "call_index": index,
            "call": call,
        }
        for number in range(3)
        for index, call in enumerate(["mkdir(dir_name='x')", "ls()"])
    ]
    source = write(tmp_path / "in.jsonl", *calls)
    assert run("execute", broken_dir, source, tmp_path / "out.jsonl") == 1
    out = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [each.get("invalid", False) for each in out] == [False, False, True, True, False, False]
    assert out[5]["result"] == '{"current_directory_content": ["x"]}'
    assert not any("result" in each for each in out[2:4])


def test_a_task_whose_tools_were_let_go_is_told_never_begun_anew(
    broken_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fctncalling.cli.execute.MAX_SESSIONS", 1)
    executor = RecordExecutor(broken_dir)

    def executed(number: int, index: int) -> dict[str, Any]:
        record = {"category": "multi_turn_base", "id": f"multi_turn_base_{number}", "call": "ls()"}
        return executor.execute_record(
            SourceRecord(Path("in"), 1, {**record, "turn": 0, "call_index": index})
        )

    assert [executed(number, 0).get("invalid") for number in (0, 2)] == [None, None]
    assert "more than 1 tasks" in executed(0, 1)["invalid_reason"]
    assert "result" in executed(2, 1)


def test_tasks_are_found_in_any_order_though_few_are_held() -> None:
    tasks = [
        Task(f"t{number}", "simple_python", [], extra={"number": number}) for number in range(100)
    ]
    order = [*range(0, 100, 7), *range(99, -1, -1)]
    random.Random(0).shuffle(order)
    store = TaskStore(Path("tasks.json"), iter(tasks), held=5)
    assert [store.get(f"t{number}") for number in order] == [tasks[number] for number in order]
    assert store.get("t100") is None
    twice = TaskStore(Path("tasks.json"), iter([*tasks, tasks[3]]), held=5)
    assert twice.get("t99") is tasks[99]
    with pytest.raises(TaskError, match=r'tasks.json: id "t3": expected ids to be unique'):
        twice.get("other")


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


def test_a_missing_input_is_told(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("verdicts", data_dir, tmp_path / "none.jsonl", tmp_path / "out.jsonl") == 2
    assert "none.jsonl: there is no such file or folder" in capsys.readouterr().err


@pytest.mark.parametrize("subcommand", sorted(subcommands()))
def test_every_subcommand_shows_an_example(
    subcommand: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([subcommand, "--help"])
    assert exit_.value.code == 0
    assert f"fctncalling {subcommand} " in capsys.readouterr().out.split("example", 1)[1]


# What these print is not theirs to choose: the protocol's, the shell's.
@pytest.mark.parametrize("subcommand", sorted(subcommands().keys() - {"serve-mcp", "completion"}))
def test_every_subcommand_prints_json(subcommand: str) -> None:
    parser = argparse.ArgumentParser()
    import_module(subcommands()[subcommand]).add_arguments(parser)
    assert "--json" in parser.format_help()


def test_an_unknown_subcommand_is_told_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["dance"])
    assert exit_.value.code == 2
    errors = capsys.readouterr().err
    assert all(name in errors for name in subcommands())
