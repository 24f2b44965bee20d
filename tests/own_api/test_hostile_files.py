"""Specifications and logs of strangers: bounded time and memory, nothing read beside their folder.

All go through the command, in one process: its memory is that of the hungriest.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hostile_logs import ZONES, hostile_logs
from hostile_specifications import SECRET, write_hostile_specifications

from fctncalling.cli.command import main

TREE = Path(__file__).parents[2]
COMMANDS = TREE / "tests" / "support" / "measured_commands.py"
MAX_CPU_S, MAX_MB = 5, 300
ACCEPTED = ("encoding_mark.json", "encoding_utf_16.json", "encoding_surrogate.json")
"""Those that are read although they are odd; a stranger's may be, too, where nothing is lost."""


def measured(commands: Sequence[Sequence[str]], folder: Path) -> list[dict[str, Any]]:
    """Return what each command said, read and took, all in one process."""
    ran = subprocess.run(
        [sys.executable, str(COMMANDS)],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=600,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TREE)},
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return what forge did with each hostile specification, by its name."""
    folder = tmp_path_factory.mktemp("hostile")
    files = write_hostile_specifications(folder)
    commands = [
        [
            "forge",
            "--api",
            str(file),
            "--num_tasks",
            "6",
            "--output",
            str(folder / "made" / file.name),
        ]
        for file in files
    ]
    results = measured(commands, folder)
    for file, result in zip(files, results, strict=True):
        made = sorted((folder / "made").glob(f"{file.name}*"))
        result["written"] = "".join(each.read_text("utf-8") for each in made)
        result["outside"] = [each for each in result["opened"] if is_of_nobody(each, file.parent)]
    return {file.name: result for file, result in zip(files, results, strict=True)}


def is_of_nobody(path: str, folder: Path) -> bool:
    """Return whether neither the specification nor Python has any business with a file."""
    zones = "/usr/share/zoneinfo"  # where Python looks for UTC
    own = (str(folder), str(folder.parent / "made"), sys.prefix, sys.base_prefix, zones)
    is_ours = path.startswith((*own, str(TREE))) or path.endswith(
        (".py", ".pyc", ".toml", "pools.json")
    )
    return not is_ours or ".hidden" in path


def test_each_hostile_specification_is_made_or_refused_in_one_line(
    judged: dict[str, dict[str, Any]],
) -> None:
    assert len(judged) >= 40
    for name, result in judged.items():
        lines = result["error"].splitlines()
        assert result["code"] in (0, 2), (name, result["error"])
        assert "Traceback" not in result["error"], name
        assert all(line.isprintable() and len(line) < 1200 for line in lines), name
        if result["code"] == 2:
            assert len([line for line in lines if line.startswith("error: ")]) == 1, (name, lines)
    assert {judged[name]["code"] for name in ACCEPTED} == {0}
    assert judged["odd_one_of.json"]["code"] == judged["odd_bounds.json"]["code"] == 0


def test_time_and_memory_of_hostile_specifications_are_bounded(
    judged: dict[str, dict[str, Any]],
) -> None:
    slow = {name: each["cpu_s"] for name, each in judged.items() if each["cpu_s"] > MAX_CPU_S}
    assert not slow
    assert max(each["peak_mb"] for each in judged.values()) < MAX_MB


def test_no_specification_reads_a_file_beside_its_folder(
    judged: dict[str, dict[str, Any]],
) -> None:
    for name, result in judged.items():
        assert SECRET not in result["error"] + result["written"], name
        assert result["outside"] == [], name
    for name in ("parent", "encoded_parent", "absolute", "link", "linked_folder", "hidden"):
        assert "only files below" in judged[f"reference_{name}.json"]["error"], name


def test_a_schema_in_a_file_below_the_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    room = {"room": {"type": "string", "enum": ["kitchen", "hall"]}}
    (tmp_path / "parts" / "rooms.json").write_text(json.dumps(room), "utf-8")
    schema = {"$ref": "parts/rooms.json#/room"}
    parameter = {"name": "room", "in": "query", "required": True, "schema": schema}
    heat = {"operationId": "heat", "summary": "Heat a room.", "parameters": [parameter]}
    document = {"openapi": "3.1.0", "paths": {"/heat": {"post": heat}}}
    (tmp_path / "api.json").write_text(json.dumps(document), "utf-8")
    words = ["forge", "--api", str(tmp_path / "api.json"), "--num_tasks", "4"]
    assert main([*words, "--output", str(tmp_path / "tasks.jsonl")]) == 0
    assert "kitchen" in (tmp_path / "tasks.jsonl").read_text("utf-8")


def test_names_and_titles_are_no_html_on_the_coverage_page(
    judged: dict[str, dict[str, Any]],
) -> None:
    page = judged["odd_title.json"]["written"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt; \\| x" in page
    assert "<script>" not in page.partition("# &lt;")[2]


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    """Return a specification of one function that the logs call."""
    zone = {"type": "string", "enum": list(ZONES)}
    minutes = {"type": "integer", "minimum": 1, "maximum": 60}
    schema = {"properties": {"zone": zone, "minutes": minutes}, "required": ["zone"]}
    tools = [{"name": "water_zone", "description": "Water a zone.", "parameters": schema}]
    path = tmp_path / "garden.json"
    path.write_text(json.dumps(tools), "utf-8")
    return path


def test_bad_lines_of_logs_are_counted_and_the_good_ones_become_tasks(
    garden: Path, tmp_path: Path
) -> None:
    logs = hostile_logs()
    assert len(logs) >= 40
    whole = tmp_path / "whole.log"
    whole.write_bytes(b"\n".join([good_line("first"), *logs.values(), good_line("last")]))
    [result] = measured([forged(garden, tmp_path / "whole.jsonl", whole)], tmp_path)
    told = result["error"]
    assert result["code"] == 0, told
    assert all(line.isprintable() and len(line) < 4000 for line in told.splitlines())
    assert "(line 2) is not UTF-8" in told
    left_out = told.partition("left out: ")[2].split("note:")[0]
    counts = map(int, re.findall(r"(?:^|, )(\d+) (?:\(line|for)", left_out))
    assert sum(counts) == len(logs)
    assert "further reasons" in left_out
    assert texts_in(tmp_path / "whole.jsonl") == ["first", "last"]
    assert result["peak_mb"] < MAX_MB


@pytest.mark.prove
def test_each_bad_line_of_a_log_is_told_with_its_number(garden: Path, tmp_path: Path) -> None:
    logs = hostile_logs()
    for name, line in logs.items():
        (tmp_path / f"{name}.log").write_bytes(line + b"\n" + good_line("good") + b"\n")
    commands = [forged(garden, tmp_path / f"{n}.jsonl", tmp_path / f"{n}.log") for n in logs]
    for name, result in zip(logs, measured(commands, tmp_path), strict=True):
        assert result["code"] == 0, (name, result["error"])
        assert all(line.isprintable() for line in result["error"].splitlines()), name
        assert len(result["error"]) < 4000, name
        assert "left out: 1 (line 1) " in result["error"], (name, result["error"])
        assert texts_in(tmp_path / f"{name}.jsonl") == ["good"], name


def texts_in(output: Path) -> list[str]:
    """Return the requests that became tasks, by what each ends in."""
    lines = Path(f"{output}.from_logs.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["question"][0][0]["content"].rpartition(" ")[2] for line in lines]


def forged(garden: Path, output: Path, log: Path) -> list[str]:
    flags = ["--num_tasks", "2", "--category", "multiple", "--from_logs", str(log)]
    return ["forge", "--api", str(garden), *flags, "--output", str(output)]


def good_line(text: str) -> bytes:
    call = {"function": {"name": "water_zone", "arguments": '{"zone": "lawn"}'}}
    messages = [
        {"role": "user", "content": f"the lawn please, {text}"},
        {"role": "assistant", "tool_calls": [call]},
    ]
    return json.dumps({"messages": messages}).encode()


@pytest.mark.parametrize("make", [lambda path: Path("/dev/zero"), os.mkfifo, Path.mkdir, str])
def test_a_log_that_is_no_file_is_refused_before_any_task_is_made(
    make: Callable[[Path], Any], garden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make(tmp_path / "log")
    log = made if isinstance(made, Path) else tmp_path / "log"
    output = tmp_path / "tasks.jsonl"
    assert main(forged(garden, output, log)) == 2
    error = capsys.readouterr().err
    assert str(log) in error
    assert error.count("\n") == 1
    assert not output.exists()
