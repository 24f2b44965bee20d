"""Mistakes at the command line: one line names the culprit and the cure, nothing is written, the
exit code is 2.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from evaluate_fctncalling import main
from fctncalling.data import json_stream
from fctncalling.evaluation.accepted_answers import render_source_value

QUESTION = [[{"role": "user", "content": "Add 1 and 2."}]]
DOC = {
    "name": "add",
    "description": "Add two numbers.",
    "parameters": {"type": "dict", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}
TASK = {
    "id": "simple_python_0",
    "question": QUESTION,
    "function": [DOC],
    "ground_truth": [{"add": {"a": [1]}}],
}
TURNS = {
    "id": "multi_turn_base_0",
    "question": QUESTION,
    "function": [DOC],
    "involved_classes": ["MathAPI"],
    "initial_config": {},
    "ground_truth": [["add(a=1)"]],
}
FILES = {
    **TURNS,
    "id": "multi_turn_long_context_0",
    "involved_classes": ["GorillaFileSystem"],
    "initial_config": {
        "GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {}}}}
    },
}
ANSWER = {
    "category": "simple_python",
    "form": "prompting",
    "id": "simple_python_0",
    "response": "[add(a=1)]",
}
RESULT = {"id": "simple_python_0", "result": "[add(a=1)]"}
TREE = "tree/m/non_live/BFCL_v4_simple_python_result.json"
DATA, LONG = "BFCL_v4_simple_python.json", "BFCL_v4_multi_turn_long_context.json"
RUN = ("run", "--agent", "noop", "--output", "out.jsonl", "--data_dir", ".")
SCORE = ("score", "--input", "in.jsonl", "--data_dir", ".")
LINT, CANARIES = (
    ("lint", "--dataset_path", "tasks.json"),
    ("canaries", "--dataset_path", "tasks.json"),
)
NO_TABLES = "FCTNCALLING_LONG_CONTEXT is set to none.json, but there is no file"

# (files beside good ones: name -> text or records; arguments; what the one line says)
MISTAKES: list[tuple[dict[str, Any], tuple[str, ...], str]] = [
    ({}, ("lint", "--dataset_path", "none.json"), "none.json: no such file"),
    ({"tasks.json": ""}, LINT, "tasks.json: the file is empty"),
    ({"tasks.json": "[]"}, LINT, "tasks.json: no task in it"),
    ({"tasks.json": '{"id": "simple_python_0",\n'}, LINT, "tasks.json line 1: broken JSON"),
    ({"tasks.json": b"\xff\xfe\x00"}, LINT, "tasks.json: not UTF-8 text"),
    (
        {"tasks.json": [{**TASK, "question": "Add"}]},
        LINT,
        '(id "simple_python_0"): question: expected a list of turns',
    ),
    (
        {"tasks.json": [{**TASK, "ground_truth": ["add(a=1)"]}]},
        LINT,
        "ground_truth[0]: expected {function:",
    ),
    (
        {"tasks.json": [{**TURNS, "ground_truth": []}]},
        LINT,
        "expected one list of calls for each of the 1 turns",
    ),
    ({"tasks.json": [{**TURNS, "involved_classes": ["Mine"]}]}, LINT, 'no tool is called "Mine"'),
    ({"tasks.json": [{**TURNS, "involved_classes": ["my.Mine"]}]}, LINT, "--allow_task_tools"),
    ({"tasks.json": [TURNS]}, (*LINT, "--tools", "Mine=my:Mine"), "in one that PYTHONPATH names"),
    (
        {"tasks.json": [TURNS]},
        (*LINT, "--tools", "my:Mine"),
        "--tools: expected NAME=MODULE:CLASS, got 'my:Mine'",
    ),
    ({}, ("canaries", "--dataset_path", "none.json"), "none.json: no such file"),
    ({}, ("canaries", "--limit", "0"), "--limit: got 0, expected at least 1"),
    ({"tasks.json": [{**TURNS, "involved_classes": ["my.Mine"]}]}, CANARIES, "my:Mine"),
    ({LONG: [FILES]}, ("canaries", "--dataset_path", LONG), NO_TABLES),
    ({LONG: [FILES]}, (*RUN, "--category", "multi_turn_long_context"), NO_TABLES),
    ({}, (*RUN, "--category", "simple_pythn"), "is simple_python meant?"),
    ({}, (*RUN, "--limit", "-1"), "--limit: got -1, expected at least 1"),
    ({}, (*RUN, "--temperature", "nan"), "--temperature: got nan, expected at least 0"),
    ({"tasks.json": "[]"}, (*RUN[:-2], "--dataset_path", "tasks.json"), "nothing was played"),
    ({"out.jsonl": [ANSWER]}, RUN, "out.jsonl: is there already. Go on with it by --resume"),
    ({"out.jsonl/file": ""}, RUN, "out.jsonl: is a folder"),
    ({}, ("run", "--agent", "hf", *RUN[3:]), 'no agent is called "hf"'),
    ({}, (*RUN[:-1], "nowhere"), "nowhere: no such file"),
    ({"in.jsonl": "no json\n"}, SCORE, "in.jsonl line 1: expected a JSON object"),
    (
        {"in.jsonl": [{**ANSWER, "category": "simple_pythn"}]},
        SCORE,
        "Expected one of simple_python.",
    ),
    (
        {"in.jsonl": [ANSWER, {**ANSWER, "id": 5}]},
        SCORE,
        'in.jsonl line 2: field "id": expected a task\'s id, got 5',
    ),
    (
        {"in.jsonl": [{**ANSWER, "id": "simple_python_9"}]},
        SCORE,
        'in.jsonl line 1: field "id": no task of',
    ),
    (
        {"in.jsonl": [{**ANSWER, "form": "spoken"}]},
        SCORE,
        'field "form": expected one of prompting, tool_call',
    ),
    (
        {"in.jsonl": [ANSWER]},
        (*SCORE, "--category", "parallel"),
        "no results of parallel, but of simple_python",
    ),
    (
        {"in.jsonl": [ANSWER], "file": ""},
        (*SCORE, "--score_dir", "file"),
        "--score_dir file: is a file",
    ),
    (
        {TREE: [{"id": "simple_python_0"}]},
        ("score", "--input", "tree", "--data_dir", "."),
        'field "result": expected',
    ),
    ({TREE: [RESULT, RESULT]}, ("score", "--input", "tree", "--data_dir", "."), "line 2"),
    ({}, ("score", "--input", "none", "--data_dir", "."), "none: there is no such file or folder"),
    ({}, ("replay", "--input", "none.jsonl"), "none.jsonl: cannot be read"),
    ({"in.jsonl": ""}, ("replay", "--input", "in.jsonl"), "in.jsonl: no episode in it"),
    (
        {"in.jsonl": [ANSWER]},
        ("replay", "--input", "in.jsonl"),
        'in.jsonl line 1: field "steps": expected',
    ),
    (
        {"in.jsonl": [ANSWER]},
        ("execute", "--input", "in.jsonl", "--output", "out.jsonl", "--data_dir", "."),
        'in.jsonl line 1: field "call": expected a call as text',
    ),
    (
        {},
        ("import-bfcl", "--source", "none.whl", "--data_dir", "data"),
        "none.whl: there is no such wheel or folder",
    ),
    (
        {"a.whl": "text"},
        ("import-bfcl", "--source", "a.whl", "--data_dir", "data"),
        "a.whl: expected a wheel",
    ),
    (
        {},
        ("export", "--checkpoint", "none", "--output", "model"),
        "--checkpoint none: no such folder",
    ),
]


def write(path: Path, content: Any) -> None:
    """Write bytes, a text, or records as JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(
            content
            if isinstance(content, str)
            else "".join(json.dumps(each) + "\n" for each in content)
        )


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def told_by(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line that a command ends with."""
    assert main(arguments) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert len(errors.splitlines()) == 1, errors
    assert errors.startswith("error: ")
    return errors


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FCTNCALLING_LONG_CONTEXT", "none.json")


@pytest.mark.parametrize(("files", "arguments", "told"), MISTAKES)
def test_one_line_names_the_culprit_and_the_cure(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, Any],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    for name, content in {DATA: [TASK], **files}.items():
        write(tmp_path / name, content)
    given = files_in(tmp_path)
    assert told in told_by(arguments, capsys)
    assert files_in(tmp_path) == given, "nothing is written or changed"


def test_an_address_that_is_none_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("httpx")
    write(tmp_path / DATA, [TASK])
    endpoint = (
        "run",
        "--agent",
        "openai:m",
        "--base_url",
        "here",
        *RUN[3:],
        "--category",
        "simple_python",
    )
    assert "--base_url: here/chat/completions" in told_by(endpoint, capsys)
    assert not (tmp_path / "out.jsonl").exists()


ODD: list[Any] = [5, -1, True, "x", "\ud800", [["a"]], {"a": 1}]
LOGGED = ("id", "category", "handler", "seed", "form", "max_steps_per_turn", "prompt_style")
LOGGED += ("response", "progress", "valid", "sample", "model", "steps", "messages", "dataset_path")


@pytest.mark.parametrize("field", LOGGED)
def test_a_log_with_a_field_of_another_type_ends_no_command_in_a_traceback(
    field: str, tmp_path: Path
) -> None:
    write(tmp_path / DATA, [TASK])
    play = ("run", "--agent", "oracle", "--dataset_path", DATA, "--output", "out.jsonl")
    assert main(play) == 0
    [line] = (tmp_path / "out.jsonl").read_text().splitlines()
    for odd in ODD:
        write(tmp_path / "out.jsonl", [{**json.loads(line), field: odd}])
        for command in ("replay", "score", "verdicts"):
            more = ("--output", "verdicts.jsonl") if command == "verdicts" else ()
            told = (command, "--input", "out.jsonl", "--dataset_path", DATA, *more)
            assert main(told) in (0, 1, 2)
        assert main(("why", "out.jsonl", "--dataset_path", DATA)) in (0, 2)
        assert main((*play, "--resume")) in (0, 2)


def test_item_docs_of_another_type_stop_no_lint() -> None:
    assert (
        render_source_value([1], {"type": "Array", "items": "x"}, "java", "natural")
        == "new Object[]{1}"
    )


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz"])
def test_a_line_without_an_end_is_refused_before_memory_is_full(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "MAX_LINE_CHARS", 2000)
    text = json.dumps(ANSWER) + "\n" + json.dumps({**ANSWER, "response": "x" * 3000}) + "\n"
    pack = gzip.compress if name.endswith(".gz") else bytes
    (tmp_path / name).write_bytes(pack(text.encode()))
    write(tmp_path / DATA, [TASK])
    judging = ("--input", name, "--dataset_path", DATA)
    for command in (
        ("why", name, "--dataset_path", DATA),
        ("score", *judging),
        ("verdicts", *judging, "--output", "out.jsonl"),
    ):
        assert f"{name} line 2: has more than 2,000 characters" in told_by(command, capsys)
    long = {**TASK, "question": [[{"role": "user", "content": "x" * 200_000}]]}
    for content, told in ((long, "line 1: has more than"), ([long], "an entry of more than")):
        (tmp_path / "tasks.json").write_text(json.dumps(content))
        assert f"{told} 2,000 characters" in told_by(LINT, capsys)


def test_a_json_array_of_answers_is_told_with_the_cure(capsys: pytest.CaptureFixture[str]) -> None:
    for text in (json.dumps([ANSWER]), json.dumps([ANSWER], indent=1)):
        Path("in.jsonl").write_text(text)
        for command in (("why", "in.jsonl"), SCORE):
            error = told_by(command, capsys)
            assert "in.jsonl line 1: expected a JSON object, got a JSON array" in error
            assert "jq -c '.[]' in.jsonl" in error
