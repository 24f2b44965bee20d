"""The ruler on a pretrained model: SmolLM2 on forged multi-turn tasks of one API each."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pretrained_model import FOLDER, needs_smollm2

from fctncalling.cli.command import main

TASKS = int(os.environ.get("FCTNCALLING_RULER_TASKS", "40"))


@pytest.mark.prove
@needs_smollm2
def test_the_ruler_grades_smollm2_on_multi_turn_tasks_of_one_api(tmp_path: Path) -> None:
    forged, tasks = tmp_path / "forged.jsonl", tmp_path / "one_api.jsonl"
    two = tmp_path / "two.jsonl"
    made = ["--category", "multi_turn_base", "--num_tasks", str(5 * TASKS)]
    assert main(["forge", *made, "--output", str(forged)]) == 0
    lines = forged.read_text(encoding="utf-8").splitlines()
    one = [line for line in lines if len(json.loads(line)["involved_classes"]) == 1]
    assert len(one) >= TASKS
    tasks.write_text("\n".join(one[:TASKS]), encoding="utf-8")
    two.write_text("\n".join(one[:2]), encoding="utf-8")
    settings = {
        "model_name_or_path": FOLDER,
        "dataset_path": tasks,
        "eval_dataset_path": two,
        "eval_episodes": 1,
        "sft_tasks": "dataset",  # untaught it solves nothing: all values would be 0
        "sft_lr": 2e-4,
        "sft_batch_size": 8,
        "sft_group_by_prefix": "true",
        "compute_dtype": "bfloat16",
        "num_updates": 0,
        "n_rollout_threads": 8,
        "prompt_style": "compact",
        "reward": "progress",
        "max_new_tokens": 48,
        "max_steps_per_turn": 3,
        "max_episode_tokens": 2048,
        "results_dir": tmp_path / "results",
    }
    assert main(["train", *(f"--{name}={value}" for name, value in settings.items())]) == 0
    run = next((tmp_path / "results").glob("*/*/*/*"))
    found = tmp_path / "grades.json"
    few = ["--group_size", "2", "--critic_tasks", "0", "--max_branches", "4"]
    flags = [str(run), "--tasks", str(TASKS), *few, "--json", str(found)]
    assert main(["credit", *flags]) == 0
    grades = json.loads(found.read_text(encoding="utf-8"))
    truth = grades["truth"]
    assert truth["tasks"] == TASKS
    assert truth["same_token_prefix"] == truth["states"] >= TASKS
    assert truth["branches"] == 4 * truth["states"]
    assert {"siblings", "state", "critic"} <= set(grades["values"])
    assert {"TPPO", "GRPO"} <= set(grades["estimators"])
