"""Proofs on three APIs written by others: a class, an OpenAPI document, an MCP server."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fctncalling.cli.command import main
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Call, Task
from fctncalling.envs import judge, oracle_calls
from fctncalling.envs.handlers.registry import get_handler

APIS = (Path(os.environ.get("FCTNCALLING_SHARED", "../shared")) / "apis").resolve()
SERVER = shlex.join([sys.executable, str(APIS / "meeting_rooms_server.py")])
SPECS = {
    "class": ("library_desk:LibraryDesk", "--scenarios", str(APIS / "scenarios.json")),
    "openapi": (str(APIS / "parcel.yaml"),),
    "mcp": (f"mcp:{SERVER}",),
}
NUM_TASKS, LEAST_A_CPU_SECOND = 2000, 60
pytestmark = [
    pytest.mark.prove,
    pytest.mark.skipif(not APIS.is_dir(), reason=f"needs {APIS}: set FCTNCALLING_SHARED"),
]


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    if request.param == "mcp" and find_spec("mcp") is None:
        pytest.skip("needs pip install mcp")
    monkeypatch.syspath_prepend(str(APIS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return SPECS[request.param]


def forged(spec: Sequence[str], output: Path) -> Path:
    words = ["forge", "--api", *spec, "--num_tasks", str(NUM_TASKS), "--output", str(output)]
    assert main(words) == 0
    return output


def test_two_thousand_tasks_are_distinct_fast_and_the_same_for_the_same_seed(
    spec: Sequence[str], tmp_path: Path
) -> None:
    begun = time.process_time()
    one = forged(spec, tmp_path / "one.jsonl")
    assert NUM_TASKS / (time.process_time() - begun) > LEAST_A_CPU_SECOND
    assert one.read_bytes() == forged(spec, tmp_path / "two.jsonl").read_bytes()
    lines = one.read_text(encoding="utf-8").splitlines()
    texts = {json.dumps(json.loads(line)["question"]) for line in lines}
    assert len(texts) == len(lines) == NUM_TASKS


def test_the_oracle_solves_all_and_degenerate_policies_none(
    spec: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = forged(spec, tmp_path / "tasks.jsonl")
    capsys.readouterr()
    flags = ["--dataset_path", str(tasks), "--allow_task_tools", "--json"]
    assert main(["canaries", *flags]) == 0
    rates = json.loads(capsys.readouterr().out)["success"]
    assert rates["all"]["oracle"] == 1.0
    for category in ("multiple", "parallel_multiple", "clarify_missing"):
        for name in ("noop", "echo", "first_function", "always_call"):
            # Few requests are for the first function and say no value at all.
            assert rates[category][name] <= 0.02, (category, name)
    assert rates["irrelevance"]["always_call"] == 0.0
    assert rates["clarify_missing"]["never_ask"] == 0.0


def test_silent_foreign_shuffled_and_halved_answers_are_refused(
    spec: Sequence[str], tmp_path: Path
) -> None:
    render = get_handler("python_calls").render
    tasks = [
        task
        for task in load_tasks(forged(spec, tmp_path / "tasks.jsonl"))
        if task.category in ("multiple", "parallel_multiple")
    ]
    refused = 0
    for task, other in zip(tasks, [*tasks[1:], tasks[0]], strict=True):
        [calls], [foreign] = oracle_calls(task), oracle_calls(other)
        assert judge(task, render(calls)).valid, task.id
        wrong = {
            "silent": "I am not able to do that.",
            "halved": render(calls[:-1]) if len(calls) > 1 else "[]",
            "doubled": render([*calls, calls[0]]),
            "foreign": render(foreign),
            **{f"shuffled {each}": render(each) for each in shuffled(calls)},
        }
        for name, answer in wrong.items():
            if name != "foreign" or not same_request(task, foreign):
                assert not judge(task, answer).valid, (task.id, name, answer)
                refused += 1
    assert refused > 5 * len(tasks) // 2


def shuffled(calls: Sequence[Call]) -> list[list[Call]]:
    """Return the calls with two unequal values of the first exchanged, one pair at a time."""
    first, *rest = calls
    found: list[list[Call]] = []
    names = sorted(first.arguments)
    for one, two in pairwise(names):
        values: dict[str, Any] = dict(first.arguments)
        if values[one] != values[two]:
            values[one], values[two] = values[two], values[one]
            found.append([Call(first.name, values), *rest])
    return found


def same_request(task: Task, calls: Sequence[Call]) -> bool:
    """Return whether two tasks happen to ask for the same calls."""
    [own] = oracle_calls(task)
    return sorted(map(str, own)) == sorted(map(str, calls))
