"""The page's credit is the trainer's, whatever mends the estimate; what is not known is said."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import planted_runs
import pytest

from evaluate_fctncalling import main
from fctncalling.algorithms.config.running_settings import ALGORITHM_NAMES
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.token_file import TokenFile, read_token_file, write_token_file
from fctncalling.lab.viewer import load_run, page_data
from train_fctncalling import main as train

BASELINES = ("none", "leave_one_out", "state")
FAST = [("GRPO", "none"), ("APPO", "state"), *(("TPPO", baseline) for baseline in BASELINES)]
CASES = [
    pytest.param(*case, marks=() if case in FAST else pytest.mark.prove)
    for case in itertools.product(ALGORITHM_NAMES, BASELINES)
    if case == ("GRPO", "none") or case[0] != "GRPO"  # GRPO's groups are their own baseline
]


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    return ChatTemplate(planted_runs._tokenizer())


def credit_check(run: Path) -> dict[str, Any]:
    checks = page_data(load_run(run), lambda record: (None, {}))["checks"]
    (found,) = (each for each in checks if each["check"] == "credit")
    return found


def run_of(folder: Path, template: ChatTemplate, algorithm: str, baseline: str) -> Path:
    """Write a run of two tasks, four episodes each, that pass states of one another."""
    records: list[EpisodeRecord] = [
        record for _ in range(2) for record in planted_runs._episodes(template)
    ]
    for number, record in enumerate(records):
        record.state_hashes = ["start", f"behind {number % 3}"]
        row = record.rows[0]
        row.rewards = [reward * (1 + number / 10) for reward in row.rewards]
    records[4].terminated, records[4].truncated = False, True
    config = dataclasses.replace(
        planted_runs.CONFIG, algorithm_name=algorithm, group_size=4, group_baseline=baseline
    )
    return planted_runs.write_run(folder, template, records, records, config)


def token_path(run: Path) -> Path:
    return run / "tokens" / "update_000001.npz"


def without_later_fields(contents: TokenFile) -> TokenFile:
    """Return a token file as version 0.3 wrote it."""
    header = {key: value for key, value in contents.header.items() if key != "group_baseline"}
    episodes = [{k: v for k, v in each.items() if k != "states"} for each in contents.episodes]
    return dataclasses.replace(contents, header={**header, "episodes": episodes})


@pytest.mark.parametrize(("algorithm", "baseline"), CASES)
def test_credit_is_recomputed_and_one_corrupted_number_contradicts(
    algorithm: str, baseline: str, template: ChatTemplate, tmp_path: Path
) -> None:
    run = run_of(tmp_path / "run", template, algorithm, baseline)
    assert (credit_check(run)["findings"], credit_check(run)["unchecked"]) == ([], "")
    sound = read_token_file(token_path(run))
    corrupted = sound.raw_advantages.copy()
    corrupted[np.flatnonzero(sound.in_loss)[3]] += 0.01
    write_token_file(token_path(run), dataclasses.replace(sound, raw_advantages=corrupted))
    (found,) = credit_check(run)["findings"]
    assert "by the formula" in found["message"]


def test_the_states_of_a_token_file_decide_what_its_credit_is(
    template: ChatTemplate, tmp_path: Path
) -> None:
    run = run_of(tmp_path / "run", template, "TPPO", "state")
    sound = read_token_file(token_path(run))
    assert [each["states"] for each in sound.episodes[:2]] == [[0, 1], [0, 2]]
    sound.episodes[0]["states"][0] = 9
    write_token_file(token_path(run), sound)
    assert credit_check(run)["findings"]


@pytest.mark.parametrize("baseline", ["leave_one_out", "state"])
def test_a_file_of_version_0_3_is_checked_where_it_can_be_and_never_contradicts(
    baseline: str, template: ChatTemplate, tmp_path: Path
) -> None:
    run = run_of(tmp_path / "run", template, "TPPO", baseline)
    old = without_later_fields(read_token_file(token_path(run)))
    write_token_file(token_path(run), old)
    found = credit_check(run)
    assert found["findings"] == []
    assert ("names no states" in found["unchecked"]) == (baseline == "state")
    (run / "config.json").unlink()
    assert "neither token file nor config.json" in credit_check(run)["unchecked"]


def test_the_page_of_the_default_job_has_no_contradiction(tmp_path: Path) -> None:
    small = "--num_updates 2 --episodes_per_update 8 --eval_interval 0 --eval_episodes 1"
    flags = [*small.split(), "--save_interval", "0", "--results_dir", str(tmp_path)]
    assert train(flags) == 0
    run = tmp_path / "check" / "embedded" / "embedded" / "TPPO"
    assert main(["view", str(run), "--output", str(tmp_path / "page.html")]) == 0
    data = page_data(load_run(run), lambda record: (None, {}))
    assert data["credit"] == "TPPO"
    assert data["header"]["lam"] is None
    assert any(episode["learned"] for episode in data["episodes"])
    assert [each for each in data["checks"] if each["findings"] or each["unchecked"]] == []
