"""Proofs on a folder of public OpenAPI documents, which FCTNCALLING_API_DOCUMENTS names."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fctncalling.cli.command import main
from fctncalling.data.types import FunctionDoc
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.envs.prompting.prompts import docs_for_prompt, system_prompt
from fctncalling.lab.forge.forge_run import ForgeRun
from fctncalling.lab.forge.own_api.drawn_call import askable_api
from fctncalling.lab.forge.own_api.own_forge import OwnApiSource, categories_to_make
from fctncalling.lab.own_api.kinds import argument_kinds
from fctncalling.lab.own_api.load import load_api
from fctncalling.specification.api import SpecificationError

FOLDER = os.environ.get("FCTNCALLING_API_DOCUMENTS", "")
FILES = sorted(each for each in Path(FOLDER or ".").glob("*.*") if FOLDER and each.is_file())
LARGEST = sorted(FILES, key=lambda each: each.stat().st_size)[-8:]
NUM_TASKS, MANY_TASKS, LEAST_A_CPU_SECOND, MOST_LOADING_S = 200, 2000, 100, 5.0
BFCL = get_handler("python_calls")
pytestmark = [
    pytest.mark.prove,
    pytest.mark.skipif(not FILES, reason="needs a folder: set FCTNCALLING_API_DOCUMENTS"),
]


def prompt_of(task: dict[str, Any]) -> str:
    docs = [FunctionDoc(e["name"], e["description"], e["parameters"]) for e in task["function"]]
    system = system_prompt(docs_for_prompt(docs, "multiple"), BFCL, many_turns=False)
    return system + "".join(each["content"] for turn in task["question"] for each in turn)


def tasks_of(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@pytest.mark.parametrize("file", FILES, ids=lambda each: each.name)
def test_tasks_offer_few_functions_and_every_function_is_accounted_for(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "tasks.jsonl"
    words = ["forge", "--api", str(file), "--num_tasks", str(NUM_TASKS), "--output", str(output)]
    code = main(words)
    error = capsys.readouterr().err
    if code:
        assert code == 2
        assert error.splitlines()[-1].startswith("error: ")
        pytest.skip(error.splitlines()[-1][:200])
    tasks = [*tasks_of(output)]
    assert len(tasks) == NUM_TASKS
    assert max(len(each["function"]) for each in tasks) <= 12
    assert max(len(prompt_of(each)) for each in tasks) <= 20_000
    page = output.with_name(f"{output.name}.coverage.md").read_text(encoding="utf-8")
    rows = {line.split(" | ")[0].removeprefix("| ") for line in page.splitlines()}
    assert {each.name for each in load_api(str(file)).functions} <= rows


@pytest.mark.parametrize("file", LARGEST, ids=lambda each: each.name)
def test_a_hundred_tasks_a_cpu_second_of_the_largest(file: Path) -> None:
    started = time.process_time()
    try:
        api = load_api(str(file))
    except SpecificationError as error:
        pytest.skip(str(error)[:200])
    loaded = time.process_time()
    askable = askable_api(api, argument_kinds(api, None), {})
    run = ForgeRun(OwnApiSource(askable), MANY_TASKS, 1, categories_to_make(None, askable, 1))
    ready = time.process_time()
    made = sum(1 for _ in run.tasks())
    rate = made / (time.process_time() - ready)
    print(f"{file.name}: read {loaded - started:.1f} s, words {ready - loaded:.1f} s, {rate:.0f}/s")
    assert rate >= LEAST_A_CPU_SECOND
    assert loaded - started <= MOST_LOADING_S
