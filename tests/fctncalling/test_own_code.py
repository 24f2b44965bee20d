"""Rewards, tools, categories and environments of a user's own reach the trainer; tasks without
truth are refused.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evaluate_fctncalling import main as evaluate
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.run.logs import results_folder
from fctncalling.cli.train import main, parse_settings
from fctncalling.data.bfcl import TaskError, load_tasks
from fctncalling.data.types import StepRecord, Verdict
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import make_task_setup

TASK = {
    "question": [[{"role": "user", "content": "Sell an apple."}]],
    "involved_classes": ["Shop"],
    "initial_config": {"Shop": {}},
    "category": "multi_turn_base",
}


class Shop:
    """A till."""

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        self.till = 0

    def sell(self, item: str) -> int:
        """Sell one.

        Args:
            item: What to sell.
        """
        self.till += 1
        return self.till


def brevity(step: StepRecord, verdict: Verdict | None) -> float:
    return -float(len(step.text))


def task_file(folder: Path, *ids: str, **changes: Any) -> str:
    entries = [
        {"id": each, "ground_truth": [["sell(item='apple')"]]} | TASK | changes for each in ids
    ]
    path = folder / "tasks.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return str(path)


def surrounded(dataset: str, *words: str) -> Any:
    namespace = parse_settings(["--dataset_path", dataset, *words])
    given = {name: getattr(namespace, name) for name in vars(RunConfig())}
    return make_task_setup(TrainConfig.from_args(namespace), RunConfig(**given))


def played(environment: Any, texts: Sequence[str], task: str) -> tuple[list[float], dict[str, Any]]:
    _, info = environment.reset(seed=1, options={"task_id": task})
    rewards = []
    for text in texts:
        _, reward, _, _, info = environment.step(text)
        rewards.append(reward)
    return rewards, info


def test_tools_and_a_reward_of_ones_own_reach_the_trainers_environment(tmp_path: Path) -> None:
    dataset = task_file(tmp_path, "shop/1", "shop/2")
    make_env, candidates, held_out = surrounded(
        dataset, "--tools", "Shop=test_own_code:Shop", "--reward", "test_own_code:brevity"
    )[:3]
    assert sorted([candidates[0].id, *held_out]) == ["shop/1", "shop/2"]
    assert candidates[0].category == "multi_turn_base"
    rewards, info = played(make_env(), ["[sell(item='apple')]", "Done."], "shop/1")
    assert rewards == [-20.0, -5.0]
    assert info["verdict"].valid


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--reward=no_such:thing"], "--reward no_such:thing: cannot be imported: there is no mod"),
        (["--reward=test_own_code:brevty"], "test_own_code has no brevty; is brevity meant"),
        (["--reward=test_own_code:TASK"], "expected a function"),
        (["--tools", "Shop"], "expected NAME=MODULE:CLASS"),
        (["--tools", "Shop=test_own_code:brevity"], "expected a class"),
        (["--tools", "Shop=test_own_code:Shop", "--env_name=calculator"], "have no effect with"),
        (["--reward=test_own_code:brevity", "--env_name=my:Env-v0"], "have no effect with"),
    ],
)
def test_code_that_is_not_what_a_flag_wants_is_told_in_one_line(
    words: list[str], told: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=told):
        surrounded(task_file(tmp_path, "shop/1"), *words)


def test_tasks_without_ground_truth_are_refused_before_training_and_named_by_lint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = task_file(tmp_path, "shop/1", "shop/2", ground_truth=None)
    tools = ["--tools", "Shop=test_own_code:Shop"]
    with pytest.raises(TaskError, match="tasks have no ground truth"):
        surrounded(dataset, *tools)
    surrounded(dataset, *tools, "--reward=test_own_code:brevity")  # which needs none
    assert main(["--dataset_path", dataset, *tools, f"--results_dir={tmp_path / 'r'}"]) == 2
    assert "no ground truth" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
    assert evaluate(["lint", "--dataset_path", dataset, *tools]) == 1
    assert "no_ground_truth" in capsys.readouterr().out


def test_a_task_may_name_its_category_itself_whatever_its_id(tmp_path: Path) -> None:
    tasks = load_tasks(task_file(tmp_path, "order 66", "b"), self_documented=["Shop"])
    assert [(task.id, task.category) for task in tasks] == [
        ("order 66", "multi_turn_base"),
        ("b", "multi_turn_base"),
    ]
    assert "category" not in tasks[0].extra
    with pytest.raises(TaskError, match='category: "mine" is no known category: expected one of'):
        load_tasks(task_file(tmp_path, "a", category="mine"), self_documented=["Shop"])


def test_an_environment_of_ones_own_has_a_results_folder_of_its_name() -> None:
    config = TrainConfig(env_name="my_module:MyEnv-v0", results_dir="r", experiment_name="e")
    assert results_folder(config) == Path("r/e/embedded/MyEnv-v0/TPPO")


def test_modules_of_the_working_folder_are_found(tmp_path: Path) -> None:
    """Behind installed ones: a file json.py there takes nothing's place."""
    (tmp_path / "my_own_shop.py").write_text("class Shop:\n    def sell(self): ...\n")
    (tmp_path / "json.py").write_text("raise SystemExit('taken')\n")
    command = ["-m", "fctncalling", "lint", "--dataset_path", task_file(tmp_path, "shop/1")]
    command += ["--tools", "Shop=my_own_shop:Shop"]
    root = str(Path(evaluate.__code__.co_filename).parent)
    told = subprocess.run(
        [sys.executable, "-P", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 broken (truth_is_no_call)" in told.stdout, told.stderr
