"""--env_name team: mistakes in one line, exit code 2; a run with a frozen role."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.cli.train import main
from fctncalling.data.bfcl import embedded_path
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import make_task_setup

TEAM = {
    "roles": {"planner": {}, "caller": {"sees": ["planner"], "tools": ["sned"]}},
    "turn_order": ["planner", "caller"],
    "answer": "caller",
}


def test_a_mistake_in_a_team_ends_with_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "team.json"
    path.write_text(json.dumps(TEAM))
    flags = ["--env_name", "team", "--results_dir", str(tmp_path / "results")]
    flags += ["--model_name_or_path", str(embedded_path("calculator")), "--team", str(path)]
    assert main(flags) == 2
    error = capsys.readouterr().err.strip()
    assert f'--team: team {path}: role "caller": tools: got "sned", expected a func' in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("config", "run_config", "message"),
    [
        ({"frozen_roles": "plannner"}, {}, 'got "plannner", expected'),
        ({}, {"team": "parcel"}, 'team "parcel": expected a .json'),
    ],
)
def test_what_cannot_be_played_is_refused(
    config: dict[str, str], run_config: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        make_task_setup(TrainConfig(env_name="team", **config), RunConfig(**run_config))


@pytest.mark.prove
def test_the_team_job_reaches_85_percent_and_needs_both_roles_to_learn(tmp_path: Path) -> None:
    after = {}
    for frozen in (None, "planner", "caller"):
        folder = tmp_path / str(frozen)
        flags = ["--env_name", "team", "--results_dir", str(folder), "--tensorboard", "false"]
        assert main([*flags, *(["--frozen_roles", frozen] if frozen else [])]) == 0
        evaluation = json.loads(next(folder.rglob("evaluation.json")).read_text("utf-8"))
        assert evaluation["before"]["greedy"] <= 0.5
        assert evaluation["before"]["sampled"] <= 0.5
        after[frozen] = evaluation["after"]["greedy"]
    assert after[None] >= 0.85
    assert max(after["planner"], after["caller"]) <= after[None] - 0.1
