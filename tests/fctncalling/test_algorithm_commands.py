"""APPO and GRPO run to their end, on embedded and on official tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.run.logs import results_folder
from fctncalling.cli.train import main, parse_settings

OFFICIAL = "BFCL_v4_multi_turn_base.json"
SHORT = (
    "--num_updates 1 --episodes_per_update 8 --dynamic_sampling 1 --num_mini_batch 2 "
    "--eval_episodes 4"
)
LONG = f"--dataset_path {OFFICIAL} --max_episode_tokens 4096 --max_steps_per_turn 5"
COMMANDS = [
    f"--algorithm_name {name} {group} {tasks} {SHORT}".split()
    for name, group in (("APPO", ""), ("GRPO", "--group_size 4"))
    for tasks in ("--lr 3e-4", LONG)
]


@pytest.mark.prove
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_runs_to_its_end(words: list[str], shared: Path, tmp_path: Path) -> None:
    at_hand = [
        str(shared / "bfcl" / "data" / OFFICIAL) if word == OFFICIAL else word for word in words
    ]
    arguments = [*at_hand, "--results_dir", str(tmp_path)]
    assert main(arguments) == 0
    evaluation = json.loads(
        (
            results_folder(TrainConfig.from_args(parse_settings(arguments))) / "evaluation.json"
        ).read_text(encoding="utf-8")
    )
    assert evaluation["episodes"] == 8
    assert evaluation["after"]["greedy"] is not None
