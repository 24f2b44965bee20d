"""Other libraries' loops get our verdicts, and each example runs with the real library."""

from __future__ import annotations

import copy
import gzip
import inspect
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from chat_messages import CATEGORIES, FIRST, recorded_message, tool_calls_message
from conftest import SharedFolder
from integration_answers import answers, valid
from transformers.utils import get_json_schema

from fctncalling import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.integrations import trl

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples/integrations").glob("*.py"))
ONE_TURN = [task for task in FIRST if len(task.question) == 1]


def test_the_package_of_integrations_imports_no_library() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import fctncalling.integrations, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    libraries = {"trl", "inspect_ai", "smolagents", "openenv", "openrlhf", "verifiers", "nemo_gym"}
    assert not libraries & {*done.stdout.split()}


@pytest.mark.parametrize("table", CATEGORIES)
def test_trls_reward_is_the_official_verdict(
    table: str, shared: SharedFolder, verdict_counter: Any
) -> None:
    """25 recorded answers of each of 8 categories."""
    category = table.removeprefix("fc_")
    with gzip.open(shared / "bfcl" / "verdicts" / f"{table}.jsonl.gz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    records = list(islice(records, 7, None, max(1, len(records) // 25)))
    tasks = load_tasks(shared / "bfcl" / "data" / f"BFCL_v4_{category}.json")
    rewards = trl.reward_func(tasks)(
        completions=[[recorded_message(each["response"], each["form"])] for each in records],
        task_id=[each["id"] for each in records],
    )
    assert rewards == [float(each["valid"]) for each in records]
    verdict_counter.add(len(records))


@pytest.mark.parametrize("task", ONE_TURN, ids=lambda task: task.category)
def test_an_environment_of_trl_pays_for_the_right_calls_only(task: Task) -> None:
    env = trl.environment_factory([task])[task.id]()
    for called, paid in ((True, True), (False, not any(oracle_calls(task)))):
        env.reset(prompt="", task_id=task.id)
        for call in (each for turn in oracle_calls(task) for each in turn if called):
            getattr(env, call.name.replace(".", "_"))(**call.arguments)
        assert env.get_reward() == float(paid)


@pytest.mark.parametrize("task", ONE_TURN, ids=lambda task: task.category)
def test_methods_of_an_environment_of_trl_have_the_schemas_of_the_functions(task: Task) -> None:
    env = trl.environment_factory([task])[task.id]()
    methods = {
        name: method
        for name, method in inspect.getmembers(env, inspect.ismethod)
        if not name.startswith("_") and name not in ("reset", "get_reward")
    }
    assert set(methods) == {doc.name.replace(".", "_") for doc in task.functions}
    for doc in task.functions:
        schema = get_json_schema(methods[doc.name.replace(".", "_")])["function"]
        assert set(schema["parameters"]["properties"]) == set(doc.parameters["properties"])


def test_tasks_of_several_turns_are_refused_where_trl_has_one() -> None:
    task = next(task for task in FIRST if len(task.question) > 1)
    with pytest.raises(ValueError, match="play it with rollout_func"):
        trl.environment_factory([task])


def test_a_reward_of_trl_reads_messages_and_texts() -> None:
    task = next(task for task in FIRST if task.category == "simple_python")
    [calls] = oracle_calls(task)
    reward = trl.reward_func([task])
    assert reward([[tool_calls_message(calls)], "no idea"], task_id=[task.id] * 2) == [1.0, 0.0]


MULTI_TURN = ("base", "miss_func", "miss_param", "long_context")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of the tasks that TRL's rollout function plays from now on."""
    ids: list[str] = []
    monkeypatch.setattr(trl, "play_episodes", lambda _m, _t, _e, given, **_: ids.extend(given) or [])
    return ids


def roll_out(tasks: list[Task], prompts: list[Any]) -> None:
    """Hand prompts to the rollout function as TRL's trainer does: copies, without their rows."""
    trainer: Any = MagicMock()
    trl.rollout_func(tasks)(copy.deepcopy(prompts), trainer)


@pytest.mark.parametrize("form", ["tool_call", "prompting"])
def test_trl_plays_the_task_of_the_row_where_tasks_open_alike(
    form: str, shared: SharedFolder, played: list[str]
) -> None:
    tasks = [
        task
        for category in MULTI_TURN
        for task in load_tasks(shared / "bfcl/data" / f"BFCL_v4_multi_turn_{category}.json")[:6]
    ]
    rows = trl.dataset_rows(tasks, form)
    openings = {json.dumps([each["content"] for each in row["prompt"]]) for row in rows}
    assert len(openings) < len(tasks) == 24
    roll_out(tasks, [row["prompt"] for row in reversed(rows)])
    assert played == [task.id for task in reversed(tasks)]


@pytest.mark.parametrize("form", ["tool_call", "prompting"])
def test_trl_plays_rows_of_every_category_in_both_forms(form: str, played: list[str]) -> None:
    roll_out(FIRST, [row["prompt"] for row in trl.dataset_rows(FIRST, form)])
    assert played == [task.id for task in FIRST]


def test_trl_refuses_prompts_and_tasks_that_say_not_which_is_played(played: list[str]) -> None:
    one, two = FIRST[:2]
    [row] = trl.dataset_rows([one])
    changed = [{**each, "content": "Something else."} for each in row["prompt"]]
    for tasks, prompt, told in (
        ([one], [{"role": "user", "content": "?"}], "names no task"),
        ([one], "?", "names no task"),
        ([two], row["prompt"], f'"{one.id}", which rollout_func was not given'),
        ([one], changed, "give both the same tasks"),
        ([one, one], row["prompt"], f'several tasks are called "{one.id}"'),
    ):
        with pytest.raises(ValueError, match=told):
            roll_out(tasks, [prompt])
    assert played == []


@pytest.mark.prove
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_with_the_real_library(example: Path, tmp_path: Path) -> None:
    """FCTNCALLING_PYTHON_TRL and the like name the Python of each library's environment."""
    library = example.stem.partition("_")[0].upper()
    python = os.environ.get(f"FCTNCALLING_PYTHON_{library}")
    if python is None:
        pytest.skip(f"needs FCTNCALLING_PYTHON_{library}: the Python that has the library")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [python, str(example)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    printed = done.stdout
    expected = {
        "TRL": "step 2: reward",
        "INSPECT": "accuracy 0.8",
        "SMOLAGENTS": "answer: 184756",
        "OPENENV": "multi_turn_base_1 1.0 True",
        "OPENRLHF": "multi_turn_base_1: reward 1.0",
        "MCP": '"timezone": "Europe/Oslo"',
        "NEMO": "multi_turn_base_0: reward 1.0, valid True",
        "VERIFIERS": "multi_turn_base_0: reward 1.0, valid 1.0, 4 messages",
    }
    assert expected[library] in printed
    assert "FAILED" not in printed


@pytest.mark.prove
@pytest.mark.parametrize(
    "library", ["score", "trl", "inspect", "openenv", "verifiers", "openrlhf", "nemo"]
)
def test_200_answers_get_the_same_verdict_through_a_library(library: str, tmp_path: Path) -> None:
    """Right, wrong and malformed ones of 8 categories, drawn by a seed from the embedded tasks."""
    given = answers()
    expected = [valid(answer, "tool_call") for answer in given]
    assert expected == [valid(answer, "prompting") for answer in given]
    assert (len(expected), len({answer.task.category for answer in given})) == (200, 8)
    assert 60 <= sum(expected) <= 140
    assert through(library, tmp_path) == expected


@pytest.mark.prove
def test_a_limit_of_verifiers_is_a_verdict_and_a_failure_of_tools_is_none(tmp_path: Path) -> None:
    limited, failed = through("limits_of_verifiers", tmp_path)
    assert limited == [True, "max_turns", [0.0]]
    assert failed == [False, "harness_error", []]


def through(name: str, folder: Path) -> list[Any]:
    """Return what `verdicts_through.py` prints in the Python of a library, or skip."""
    variable = f"FCTNCALLING_PYTHON_{name.rpartition('_')[2].upper()}"
    python = os.environ.get(variable, sys.executable if name == "score" else "")
    if not python:
        pytest.skip(f"needs {variable}: the Python that has the library")
    support = ROOT / "tests/support"
    folders = [str(ROOT), str(support), os.environ.get("PYTHONPATH")]
    done = subprocess.run(
        [python, str(support / "verdicts_through.py"), name],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found
