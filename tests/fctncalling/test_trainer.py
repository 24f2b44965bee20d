"""Training from Python: an environment and a model in memory,
a result that says what came of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import EchoEnv, SeededEnv, save_tiny, tiny_model, tiny_tokenizer

import fctncalling
from fctncalling import TrainConfig, Trainer
from fctncalling.algorithms.config import SettingError
from fctncalling.training.run_config import RunConfig

QUIET = {"tensorboard": False, "log_episodes_interval": 1}


def small(folder: Path, **changes: Any) -> TrainConfig:
    settings: dict[str, Any] = {
        "results_dir": str(folder),
        "num_updates": 1,
        "episodes_per_update": 8,
        "num_mini_batch": 2,
        "n_rollout_threads": 4,
        "max_new_tokens": 6,
        "max_episode_tokens": 300,
        "eval_episodes": 3,
        "device": "cpu",
    }
    return TrainConfig(**settings | changes)


def generous() -> EchoEnv:
    """Return an environment that an untrained model earns in, and whose task "c" breaks."""
    env = EchoEnv({"c": "invalid"})
    step = env.step
    env.step = (
        lambda action: (  # type: ignore[method-assign]
            lambda told: (told[0], told[1] + len(action) % 2, *told[2:])
        )(step(action))
    )
    return env


def test_an_environment_and_a_model_in_memory_are_trained_evaluated_and_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tokenizer = tiny_model(trained=False), tiny_tokenizer()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    trainer = Trainer(
        small(tmp_path, lr=1e-2),
        env=generous,
        model=(model, tokenizer),
        task_ids=["a", "b", "c", "d"],
        held_out_ids=["e"],
        run_config=RunConfig(**QUIET),
    )
    result = trainer.run()
    assert result.updates == 1
    assert result.episodes == 8
    assert result.before["num_tasks"] == result.after["num_tasks"] == 1
    assert result.folder.parts[-3:] == ("given_model", "generous", "TPPO")
    told = json.loads((result.folder / "evaluation.json").read_text())
    assert (told["before"], told["after"]) == (result.before, result.after)
    assert (told["episodes"], told["invalid_episodes"]) == (8, 2)  # each task twice
    assert "2 invalid and left out" in capsys.readouterr().out
    from transformers import AutoModelForCausalLM

    learned = AutoModelForCausalLM.from_pretrained(result.checkpoint).state_dict()
    assert any(not torch.equal(before[name], learned[name]) for name in before)
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    episodes = (result.folder / "episodes" / "train_000001.jsonl").read_text().splitlines()
    assert {json.loads(line)["task_id"] for line in episodes} == {"a", "b", "c", "d"}
    with pytest.raises(FileExistsError, match="already holds a run"):
        trainer.run()


def test_the_members_of_a_grpo_group_face_one_seed_in_a_whole_run(tmp_path: Path) -> None:
    config = small(tmp_path, algorithm_name="GRPO", group_size=4, eval_episodes=1)
    model = str(save_tiny(tmp_path / "tiny"))
    result = Trainer(config, env=SeededEnv, model=model, run_config=RunConfig(**QUIET)).run()
    lines = (result.folder / "episodes" / "train_000001.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    groups = [
        {(each["task_id"], each["seed"]) for each in told[start : start + 4]} for start in (0, 4)
    ]
    assert [len(group) for group in groups] == [1, 1]
    assert groups[0] != groups[1]
    (line,) = [
        json.loads(x)
        for x in (result.folder / "metrics.jsonl").read_text().splitlines()
        if "env/episodes" in x
    ]
    assert 0 <= line["env/informative_share"] <= 1
    assert line["update/policy_skipped"] == (line["env/informative_share"] == 0)


def test_what_does_not_go_together_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="they go with a function as env"):
        Trainer(small(tmp_path), task_ids=["a"])
    with pytest.raises(SettingError, match="register yours"):
        Trainer(small(tmp_path), env=EchoEnv, run_config=RunConfig(num_rollout_workers=1))
    with pytest.raises(SettingError, match="empty list"):
        Trainer(small(tmp_path), env=EchoEnv, task_ids=[])
    assert {"Trainer", "TrainConfig"} <= set(dir(fctncalling))


@pytest.mark.parametrize(("held_out_ids", "notes"), [(None, 1), (["b"], 0)])
def test_an_evaluation_on_the_training_tasks_is_told(
    held_out_ids: list[str] | None, notes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Trainer(small(tmp_path), env=EchoEnv, task_ids=["a"], held_out_ids=held_out_ids)
    assert capsys.readouterr().out.count("the evaluation plays the training tasks") == notes
