"""Other libraries' loops get our verdicts, and each example runs with the real library."""

from __future__ import annotations

import asyncio
import copy
import gzip
import importlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Generic, TypeVar
from unittest.mock import AsyncMock, MagicMock

import pytest
from chat_messages import CATEGORIES, FIRST, recorded_message, tool_calls_message
from conftest import SharedFolder
from integration_answers import answers, valid
from transformers.utils import get_json_schema

from fctncalling import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.lab.integrations import trl

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples/integrations").glob("*.py"))
ONE_TURN = [task for task in FIRST if len(task.question) == 1]


def test_the_package_of_integrations_imports_no_library() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import fctncalling.lab.integrations, sys; print(*sys.modules)"],
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


@pytest.fixture
def confined(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the executor for smolagents, over a stand-in for the library."""
    interface: Any = ModuleType("smolagents.local_python_executor")
    interface.CodeOutput, interface.PythonExecutor = SimpleNamespace, object
    monkeypatch.setitem(sys.modules, "smolagents", ModuleType("smolagents"))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    monkeypatch.delitem(sys.modules, "fctncalling.lab.integrations.smolagents", raising=False)
    module = importlib.import_module("fctncalling.lab.integrations.smolagents")
    monkeypatch.delitem(sys.modules, module.__name__)
    executor = module.ConfinedExecutor(timeout_s=1)
    yield executor
    executor.cleanup()


def test_an_agent_of_smolagents_goes_on_and_answers_after_a_step_that_is_stopped(
    confined: Any,
) -> None:
    confined.send_variables({"given": [1, 2]})
    confined("y = 5")
    for stopped in ("while True: pass", "print('x' * 10**8)"):
        with pytest.raises(Exception, match=r"was stopped: .*\nThe variables of .* are gone"):
            confined(stopped)
        with pytest.raises(Exception, match="'y' is not defined") as caught:
            confined("print(y)")
        assert "gone" not in str(caught.value)
        assert confined("print(given)").logs == "[1, 2]\n"
        answered = confined("final_answer(sum(given))")
        assert (answered.output, answered.is_final_answer) == (3, True)


@pytest.fixture
def openenv(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module for OpenEnv, over a stand-in for the library."""
    from pydantic import BaseModel

    class State(BaseModel):
        episode_id: str | None
        step_count: int

    class Observation(BaseModel):
        done: bool
        reward: float | None

    T, U, V = TypeVar("T"), TypeVar("U"), TypeVar("V")

    class Face(Generic[T, U, V]):
        """An environment, or a client."""

    types = {"Action": BaseModel, "Observation": Observation, "State": State}
    parts: dict[str, dict[str, Any]] = {
        "openenv": {},
        "openenv.core": {"EnvClient": Face},
        "openenv.core.client_types": {"StepResult": BaseModel},
        "openenv.core.env_server": {},
        "openenv.core.env_server.http_server": {"create_fastapi_app": None},
        "openenv.core.env_server.interfaces": {"Environment": Face},
        "openenv.core.env_server.types": {**types, "EnvironmentMetadata": BaseModel},
    }
    for name, contents in parts.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "fctncalling.lab.integrations.openenv", raising=False)
    module = importlib.import_module("fctncalling.lab.integrations.openenv")
    monkeypatch.delitem(sys.modules, module.__name__)
    return module


def test_openenv_is_told_what_no_episode_can_answer_and_counts_every_step(
    openenv: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = openenv.ChatEnvironment({"test": FIRST})
    with pytest.raises(openenv.NotPlayable, match="call reset first") as caught:
        env.step(openenv.ChatAction(content="?"))
    assert caught.value.status == 409
    with pytest.raises(openenv.NotPlayable, match="'nope': no such task") as caught:
        env.reset(task_id="nope")
    assert caught.value.status == 404
    for asked in ({"split": "nope"}, {"index": -1}, {"index": len(FIRST)}, {"index": "0"}):
        with pytest.raises(openenv.NotPlayable, match="expected"):
            env.reset(**asked)
    env.reset(task_id=FIRST[0].id)

    def fails(*_: Any) -> Any:
        raise RuntimeError("whatever the message was like")

    monkeypatch.setattr(openenv.Dialogue, "reply", fails)
    with pytest.raises(RuntimeError):
        env.step(openenv.ChatAction(tool_calls=[{}]))
    assert env.state.step_count == 1


def test_the_task_api_of_openenv_names_what_reset_plays_and_no_answers(openenv: Any) -> None:
    splits = {"train": FIRST[:3], "test": FIRST[3:]}
    env = openenv.ChatEnvironment(splits)
    assert env.list_splits() == ["train", "test"]
    for split, tasks in splits.items():
        entries = env.list_tasks(split)
        assert [entry["id"] for entry in entries] == [task.id for task in tasks]
        assert env.num_tasks(split) == len(tasks)
        assert env.get_task_range(split, 1, -1) == entries[1:-1]
        for index, task in enumerate(tasks):
            assert env.get_task(split, index) == entries[index]
            assert set(entries[index]) == {"id", "split", "index", "category", "num_turns"}
            assert env.reset(split=split, index=index).info["task_id"] == task.id
    for split, index in (("train", 3), ("train", -1), ("nope", 0)):
        with pytest.raises(IndexError):
            env.get_task(split, index)
    with pytest.raises(ValueError, match="needs a task in each split"):
        openenv.openenv_app({"train": FIRST, "test": []})


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("headers", "served"),
    [
        ({"host": "127.0.0.1:8000"}, True),
        ({"host": "[::1]:8000"}, True),
        ({"host": "LOCALHOST"}, True),
        ({"host": "10.0.0.7:8000"}, True),
        ({"host": "tasks.example"}, True),
        ({"host": "10.0.0.7", "origin": "http://10.0.0.7"}, True),
        ({"host": "127.0.0.1:8000", "origin": "http://localhost:3000"}, True),
        ({"host": "evil.example"}, False),
        ({"host": "127.0.0.1.evil.example"}, False),
        ({}, False),
        ({"host": "[::1"}, False),
        ({"host": "127.0.0.1", "origin": "http://evil.example"}, False),
        ({"host": "127.0.0.1", "origin": "http://6.6.6.6"}, False),
        ({"host": "127.0.0.1", "origin": "null"}, False),
    ],
)
def test_pages_of_other_sites_do_not_reach_a_server_of_openenv(
    openenv: Any, kind: str, headers: dict[str, str], served: bool
) -> None:
    app, sent = AsyncMock(), AsyncMock()
    check = openenv.HostCheck(app, ["tasks.example"])
    scope = {"type": kind, "headers": [(k.encode(), v.encode()) for k, v in headers.items()]}
    asyncio.run(check(scope, AsyncMock(), sent))
    assert (app.await_count, bool(sent.await_count)) == (int(served), not served)


MULTI_TURN = ("base", "miss_func", "miss_param", "long_context")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of the tasks that TRL's rollout function plays from now on."""
    ids: list[str] = []
    monkeypatch.setattr(
        trl, "play_episodes", lambda _m, _t, _e, given, **_: ids.extend(given) or []
    )
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
        "OPENENV": "the oracle earns 1 in 24 of 24 episodes",
        "OPENRLHF": "multi_turn_base_1: reward 1.0",
        "MCP": '"timezone": "Europe/Oslo"',
        "NEMO": "multi_turn_base_0: reward 1.0, valid True",
        "SKYRL": "multi_turn_base_1 1.0 True",
        "LMEVAL": "valid: 0.5 of 28 tasks",
        "HARBOR": "multi_turn_base_3: reward 1.0",
        "VERIFIERS": "multi_turn_base_0: reward 1.0, valid 1.0, 4 messages",
    }
    assert expected[library] in printed
    assert "FAILED" not in printed


@pytest.mark.prove
@pytest.mark.parametrize(
    "library",
    ["score", "openai", "trl", "inspect", "openenv", "verifiers", "openrlhf", "nemo", "skyrl"],
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
def test_50_answers_get_the_same_verdict_as_folders_of_harbor(tmp_path: Path) -> None:
    expected = [valid(answer, "prompting") for answer in answers()[::4]]
    assert len(expected) == 50
    assert 10 < sum(expected) < 40
    assert through("harbor", tmp_path) == expected


@pytest.mark.prove
def test_80_answers_of_one_turn_get_the_same_verdict_through_lm_eval(tmp_path: Path) -> None:
    rows = through("lmeval", tmp_path)
    assert (len(rows), len({category for category, _, _ in rows})) == (80, 8)
    assert 20 <= sum(expected for _, _, expected in rows) <= 60
    assert [row for row in rows if row[1] != row[2]] == []


@pytest.mark.prove
def test_a_limit_of_verifiers_is_a_verdict_and_a_failure_of_tools_is_none(tmp_path: Path) -> None:
    limited, failed = through("limits_of_verifiers", tmp_path)
    assert limited == [True, "max_turns", [0.0]]
    assert failed == [False, "harness_error", []]


@pytest.mark.prove
def test_inspect_finds_the_task_of_the_documented_file(tmp_path: Path) -> None:
    """By the CLI's list, and by an evaluation of the file."""
    python = os.environ.get("FCTNCALLING_PYTHON_INSPECT")
    if python is None:
        pytest.skip("needs FCTNCALLING_PYTHON_INSPECT: the Python that has the library")
    (tmp_path / "my_tasks.py").write_text(
        "from inspect_ai import task\n"
        "from fctncalling import embedded_path, load_tasks\n"
        "from fctncalling.lab.integrations.inspect_ai import inspect_task\n"
        "@task\n"
        "def bfcl():\n"
        "    return inspect_task(load_tasks(embedded_path('held_out')))\n"
    )
    program = (
        "from inspect_ai import eval\n"
        "from inspect_ai.model import ModelOutput, ModelUsage, get_model\n"
        "def answer(*_):\n"
        "    output = ModelOutput.from_content('mockllm/model', 'No.')\n"
        "    output.usage = ModelUsage()\n"
        "    return output\n"
        "model = get_model('mockllm/model', custom_outputs=answer)\n"
        "[log] = eval('my_tasks.py', model=model, limit=3, display='none')\n"
        "print(log.status, log.eval.task, len(log.samples))\n"
    )
    for words, printed in (
        (["-m", "inspect_ai", "list", "tasks", "my_tasks.py"], "my_tasks.py@bfcl"),
        (["-c", program], "success bfcl 3"),
    ):
        done = subprocess.run(
            [python, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert printed in done.stdout, done.stderr[-2000:]


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
