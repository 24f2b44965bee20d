"""--env_name team: mistakes in one line, exit code 2; a run with a frozen role, and with
weights of each role's own.
"""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from evaluate_fctncalling import main as evaluate
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS
from fctncalling.cli.train import main
from fctncalling.data.bfcl import embedded_path
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import make_task_setup
from fctncalling.training.teams import team_roles

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


SMALL = "--env_name team --episodes_per_update 8 --num_mini_batch 2 --eval_episodes 4 --seed 5"
OWN = "--role_adapters true --lora_r 2 --team_critic per_role"


def started(folder: Path, *more: str) -> Path:
    """Run a small job with weights of each role's own; return its folder."""
    saved = "--save_interval 1 --keep_checkpoints 2"
    flags = f"{SMALL} {OWN} --eval_interval 1 {saved} --tensorboard false".split()
    assert main([*flags, "--results_dir", str(folder), *more]) == 0
    return next(folder.rglob("metrics.jsonl")).parent


def digest(folder: Path, role: str) -> bytes:
    return (folder / f"role_{role}" / "adapter_model.safetensors").read_bytes()


@pytest.mark.prove
def test_roles_with_weights_of_their_own_are_gone_on_with_bit_for_bit_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = started(tmp_path / "whole", "--num_updates=2", "--frozen_roles=planner")
    cut = started(tmp_path / "cut", "--num_updates=1", "--frozen_roles=planner")
    started(tmp_path / "cut", "--num_updates=2", "--frozen_roles=planner", "--resume")
    first, last = (whole / "checkpoints" / f"update_00000{number}" for number in (1, 2))
    assert digest(first, "planner") == digest(last, "planner")  # frozen: not a byte
    assert digest(first, "caller") != digest(last, "caller")
    again = cut / "checkpoints" / "update_000002"
    for role in ("planner", "caller"):
        assert digest(again, role) == digest(last, role)
    for name in ("metrics.jsonl", "checkpoints/last/value_head.safetensors"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
    capsys.readouterr()
    assert evaluate(["export", f"--checkpoint={last}", f"--output={tmp_path / 'made'}"]) == 0
    base = load_file(embedded_path("team") / "model.safetensors")
    for role, moved in (("planner", False), ("caller", True)):
        made = load_file(tmp_path / "made" / role / "model.safetensors")
        assert made.keys() == base.keys()
        assert all(torch.equal(made[name], it) for name, it in base.items()) is not moved
        AutoTokenizer.from_pretrained(tmp_path / "made" / role)
    flags = [*SMALL.split(), "--lora_r=2", f"--results_dir={tmp_path / 'cut'}", "--resume"]
    assert main(flags) == 2
    assert "--role_adapters: got false, but" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--env_name team --role_adapters true", "--role_adapters: needs --lora_r"),
        ("--role_adapters true --lora_r 2", "fctncalling_env names no roles: expected an attr"),
        ("--team_critic per_role", "--team_critic per_role: the environment of --env_name"),
        ("--env_name team --team_critic central", "--team_critic central: reads other rows"),
        (f"{SMALL} --team_critic central --critic full --max_episode_tokens 2000", "6000 tokens"),
        (f"{SMALL} {OWN} --frozen_roles plan", 'got "plan", expected roles of the team'),
        (f"{SMALL} {OWN} --sft_tasks dataset", "--sft_tasks and --sft_episodes are of one agent"),
        (f"{SMALL} {OWN} --rollout_engine vllm", "--role_adapters: does not go with"),
        (f"{SMALL} {OWN} --num_rollout_workers 1", "--role_adapters: does not go with"),
        (
            "--env_name team --algorithm_name GRPO --team_critic per_role",
            "--team_critic: no effect without a critic",
        ),
    ],
)
def test_flags_that_cannot_be_together_end_with_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: str, message: str
) -> None:
    assert main([*flags.split(), "--results_dir", str(tmp_path / "results")]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ((), "names no roles"),
        (("a b",), 'role "a b": its weights are saved under its name'),
        (("a", "A"), "two of them have one name"),
    ],
)
def test_an_environment_of_ones_own_says_its_roles_beforehand(
    roles: tuple[str, ...], message: str
) -> None:
    class Talk(gymnasium.Env[str, str]):
        pass

    env = Talk()
    env.roles = roles  # type: ignore[attr-defined]
    config = TrainConfig(env_name="mine", role_adapters=True, lora_r=2)
    with pytest.raises(SettingError, match=message):
        team_roles(config, lambda: env, SINGLE_PROCESS)
