"""Awkward specifications through `forge --api`: tasks, or one line; never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_awkward_specifications import document, operation

from fctncalling.cli.command import main

NOTHING_SAID = {"type": "object", "properties": {}}


def tool(name: str, description: str, properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": description, "input_schema": schema}


def named(number: int) -> dict[str, Any]:
    return tool(f"show_{number}", f"Show thing {number}.", {"id": {"type": "string"}}, "id")


MADE: dict[str, list[dict[str, Any]]] = {
    "one function without parameters": [tool("ping", "Check that the server answers.", {})],
    "no description": [{"name": "get_user", "parameters": {"properties": {"id": {}}}}],
    "names in other scripts": [
        tool("予約する", "予約する。", {"日付": {"type": "string", "format": "date"}}, "日付"),
        tool("Größe-ändern", "Größe eines Hemdes ändern.", {"größe": {"type": "integer"}}),
    ],
    "objects whose keys may all be left out": [
        tool(
            "list_rides",
            "List rides.",
            {"filter": {"type": "object", "properties": {"day": {"type": "integer"}}}},
        )
    ],
    "marks of other languages": [
        tool(
            "create_ticket",
            '<p>Creates a <b>ticket</b>.</p>\n```json\n{"a": 1}\n```\n| a | b |',
            {"title": {"type": "string", "description": "**Title** %s {0} \\1"}},
            "title",
        )
    ],
    "braces in descriptions": [tool("act", "Send {x} to {who} \\1.", {"x": {"type": "string"}})],
    "words of Python": [tool("import", "Import.", {"from": {"type": "string"}}, "from")],
    "defaults of other types": [
        tool(
            "find",
            "Find a thing.",
            {"a": {"type": "integer", "default": "five"}, "b": {"type": "object", "default": []}},
        )
    ],
    "six of one sort": [
        tool(f"get_item_v{each}", "Get an item.", {"id": {"type": "string"}}, "id")
        for each in range(6)
    ],
    "three hundred functions": [named(each) for each in range(300)],
}


def forged(tools: Any, folder: Path) -> tuple[int, Path]:
    (folder / "api.json").write_text(json.dumps(tools), encoding="utf-8")
    output = folder / "tasks.jsonl"
    words = ["forge", "--api", str(folder / "api.json"), "--output", str(output)]
    return main([*words, "--num_tasks", "40"]), output


@pytest.mark.parametrize("case", MADE)
def test_tasks_are_made(case: str, tmp_path: Path) -> None:
    code, output = forged(MADE[case], tmp_path)
    assert code == 0
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    texts = [each["question"][0][0]["content"] for each in lines]
    assert len(set(texts)) == len(texts) == 40
    assert not any(mark in text for text in texts for mark in ("<", "```", "filter:."))


def test_an_order_by_a_demanded_parameter_leaves_that_said(tmp_path: Path) -> None:
    orders = {"type": "string", "enum": ["id", "-id", "created", "-created"]}
    parameters = [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "sort", "in": "query", "schema": orders},
    ]
    get = operation(operationId="list_actions", summary="List actions.", parameters=parameters)
    code, output = forged(document({"/flows/{id}/actions": {"get": get}}), tmp_path)
    assert code == 0
    tasks = [json.loads(line) for line in output.read_text().splitlines()]
    calls = [call["list_actions"] for task in tasks for call in task.get("ground_truth") or ()]
    assert all("id" in arguments for arguments in calls)
    assert any(arguments.get("sort") == ["id"] for arguments in calls)


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([tool("f", "Do.", {"blob": NOTHING_SAID}, "blob")], "blob is demanded"),
        ([], "no function"),
        ([{"description": "nameless"}], "tool 1"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(
    tools: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forged(tools, tmp_path)[0] == 2
    told = capsys.readouterr().err.splitlines()
    assert words in told[-1]
    assert len([line for line in told if not line.startswith("note")]) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys\nsys.exit(4)\n", "ends the program"),
        ("raise RuntimeError('one\\ntwo')\n", "one two"),
        ("class Desk:\n    def __init__(self): raise SystemExit(3)\n", "cannot be made"),
        ("class Desk:\n    def __init__(self): raise ValueError('a\\nb')\n", "a b"),
    ],
)
def test_classes_that_end_the_program_or_fail_are_one_line(
    code: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"awkward_{abs(hash(code))}"
    (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    output = str(tmp_path / "tasks.jsonl")
    assert main(["forge", "--api", f"{name}:Desk", "--output", output]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert words in line
