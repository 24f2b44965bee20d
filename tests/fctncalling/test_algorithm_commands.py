"""The command lines of the algorithms: each is accepted, and each runs to its end."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.run.logs import results_folder
from fctncalling.cli.train import build_parser, main

PAGE = Path(__file__).parents[2] / "docs/algorithms.md"
OFFICIAL = "BFCL_v4_multi_turn_base.json"
PROGRAM = ["fctncalling", "train"]
# Appended to a command: of equal flags the last wins.
SHORT = [
    "--num_updates",
    "1",
    "--episodes_per_update",
    "8",
    "--dynamic_sampling",
    "1",
    "--num_mini_batch",
    "2",
    "--eval_episodes",
    "4",
]


def commands() -> list[list[str]]:
    """Return the words after the program's name of every command line in the section "The
    algorithms".
    """
    section = PAGE.read_text(encoding="utf-8").split("\n## The algorithms\n")[1].split("\n## ")[0]
    fenced = "\n".join(section.split("```")[1::2]).replace("\\\n", " ")
    lines = [shlex.split(line) for line in fenced.splitlines()]
    return [words[len(PROGRAM) :] for words in lines if words[: len(PROGRAM)] == PROGRAM]


def settings(words: list[str]) -> TrainConfig:
    """Return what a command line sets; SystemExit or SettingError where it is not accepted."""
    return TrainConfig.from_args(build_parser().parse_args(words))


def named(words: list[str]) -> str:
    """Return what a command line trains on what."""
    config = settings(words)
    return f"{config.algorithm_name}-{config.dataset_path or 'embedded'}"


def test_the_parser_takes_commands_of_appo_and_grpo_for_embedded_and_official_tasks() -> None:
    found = {named(words) for words in commands()}
    assert found == {
        f"{name}-{tasks}" for name in ("APPO", "GRPO") for tasks in ("embedded", OFFICIAL)
    }


@pytest.mark.prove
@pytest.mark.parametrize("words", commands(), ids=named)
def test_a_command_runs_to_its_end(words: list[str], shared: Path, tmp_path: Path) -> None:
    at_hand = [
        str(shared / "bfcl" / "data" / OFFICIAL) if word == OFFICIAL else word for word in words
    ]
    arguments = [*at_hand, *SHORT, "--results_dir", str(tmp_path)]
    assert main(arguments) == 0
    evaluation = json.loads(
        (results_folder(settings(arguments)) / "evaluation.json").read_text(encoding="utf-8")
    )
    assert evaluation["episodes"] == 8
    assert evaluation["after"]["greedy"] is not None
