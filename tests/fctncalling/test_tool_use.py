"""Tool use on the command line: executor and calculator reach training, and what is wrong is said
in one line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fctncalling.algorithms.config import TrainConfig
from fctncalling.cli.train import main
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import make_task_setup

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no executor on Windows")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '{"tools": [{"name": "python_executor", "timeout_seconds": "10"}]}',
            "tools[0].timeout_seconds",
        ),
        ('{"security": {"allowed_modules": ["no_such_module"]}}', "security.allowed_modules"),
        ('{"tools": [{"name": "calculator", "timeout_seconds": 1}]}', "tools[0].timeout_seconds"),
        ('{"execution": {"workers": 3}}', "execution.workers"),
        ('{"tools": []}', "tools enables no tool"),
        ("{", "is not JSON"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_configuration_is_one_line_naming_file_and_key(
    text: str | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tools.json"
    if text is not None:
        path.write_text(text)
    assert (
        main(["--enable_tool_use", f"--tool_config_path={path}", f"--results_dir={tmp_path}"]) == 2
    )
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    flag = "--tool_config_path" if text is None else "--tool_config_path:"  # no file, wrong file
    assert error[0].startswith(f"error: {flag} {path}")
    assert told in error[0]


def test_settings_of_tools_without_tools_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--num_tool_executors=2", f"--results_dir={tmp_path}"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: --num_tool_executors: has no effect without --enable_tool_use"
    )


def test_environments_of_a_run_offer_the_tools_beside_the_tasks_functions() -> None:
    plain, candidates = make_task_setup(TrainConfig(), RunConfig())[:2]
    equipped, *_ = make_task_setup(
        TrainConfig(), RunConfig(enable_tool_use=True, num_tool_executors=2)
    )
    task_id = next(task.id for task in candidates if "multi_turn" in task.category)
    offers = []
    for make_env in (plain, equipped):
        env = make_env()
        _, info = env.reset(options={"task_id": task_id})
        offers.append([tool["function"]["name"] for tool in info["tools"]])
    assert offers[1] == [*offers[0], "python_executor", "calculator"]
    *_, info = env.step("[python_executor(code='print(6 * 7)'), calculator(expression='14 + 34')]")
    assert [message["content"] for message in info["messages"]] == ["42", "48.0"]


@pytest.mark.prove
def test_a_run_with_tools_ends_with_results(tmp_path: Path) -> None:
    small = [
        "--num_updates=1",
        "--episodes_per_update=8",
        "--n_rollout_threads=8",
        "--eval_episodes=8",
    ]
    config = tmp_path / "tools.json"
    config.write_text(json.dumps({"tools": [{"name": "python_executor", "timeout_seconds": 2}]}))
    tools = ["--enable_tool_use", "--num_tool_executors=2", f"--tool_config_path={config}"]
    assert main([*small, *tools, f"--results_dir={tmp_path / 'results'}"]) == 0
    (written,) = (tmp_path / "results").rglob("evaluation.json")
    assert json.loads((written.parent / "config.json").read_text())["enable_tool_use"] is True
    metrics = (written.parent / "metrics.jsonl").read_text()
    assert '"env/invalid": 0' in metrics
