"""Settings: every field is a flag, and a bad value is told by flag, value and range."""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
from typing import Any

import pytest
import torch

from fctncalling.algorithms.config import SettingError, TrainConfig, add_arguments, resolve_device
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.cli.idle_flags import idle_flag_notes
from fctncalling.cli.train import build_parser, parse_command_line, parse_settings
from fctncalling.cli.train_flags import FORMER_FLAGS, NAMES_ELSEWHERE, SETTINGS
from fctncalling.training.run_config import RunConfig

PUBLISHED_FLAGS = (
    *(
        "seed",
        "env_name",
        "algorithm_name",
        "experiment_name",
        "num_mini_batch",
        "ppo_epoch",
        "lr",
        "critic_lr",
    ),
    *(
        "dataset_path",
        "model_name_or_path",
        "n_rollout_threads",
        "gradient_cp_steps",
        "max_new_tokens",
    ),
    "save_interval",
)


def notes_of(words: list[str]) -> list[str]:
    """Return the notes on idle flags of a command line."""
    line = parse_command_line(words)
    return idle_flag_notes(*line.configs(), line.given)


def parse(*arguments: str) -> TrainConfig:
    parser = argparse.ArgumentParser()
    add_arguments(parser, TrainConfig)
    return TrainConfig.from_args(parser.parse_args(arguments))


def test_no_flags_give_the_defaults() -> None:
    assert parse() == TrainConfig()


def test_every_field_is_a_flag_that_round_trips_through_the_command_line() -> None:
    settings = dataclasses.asdict(TrainConfig(resume="results/x", value_clip=0.5))
    arguments = [
        word
        for name, value in settings.items()
        if SETTINGS[name].has_flag
        for word in (f"--{name}", str(value).lower())
    ]
    arguments[arguments.index("--algorithm_name") + 1] = "TPPO"
    assert dataclasses.asdict(parse(*arguments)) == settings


@pytest.mark.parametrize("flag", PUBLISHED_FLAGS)
def test_the_published_flags_exist(flag: str) -> None:
    assert flag in {field.name for field in dataclasses.fields(TrainConfig)}


def test_none_true_false_and_bare_flags_are_understood() -> None:
    config = parse(
        "--value_clip", "none", "--critic_detach", "--whiten_advantages", "false", "--resume"
    )
    assert (config.value_clip, config.critic_detach, config.whiten_advantages) == (
        None,
        True,
        False,
    )
    assert config.resume == "auto"
    assert parse("--max_grad_norm", "inf").max_grad_norm == float("inf")


@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("lr", "-1", "a number in [0, inf)"),
        ("lr", "nan", "a number in [0, inf)"),
        ("lr", "fast", "a number in [0, inf)"),
        ("gamma", "1.01", "a number in [0, 1]"),
        ("temperature", "0", "a number in (0, inf)"),
        ("num_mini_batch", "0", "a whole number in [1, inf)"),
        ("num_mini_batch", "2.5", "a whole number in [1, inf)"),
        ("value_clip", "0", "a number in (0, inf) or none"),
        ("reward", "sparse", "one of success, progress"),
        ("device", "tpu", "one of auto, cpu, cuda, mps"),
        ("critic_detach", "maybe", "true or false"),
        ("algorithm_name", "SAC", "one of TPPO, POAD, NTPO, APPO, GRPO"),
        ("algorithm_name", "tppo", "is TPPO meant?"),
        ("algorithm_name", "PPO", "is TPPO (token by token) or APPO (action by action) meant?"),
        ("algorithm_name", "gspo", "is GRPO --sequence_ratio --loss_aggregation row_mean meant?"),
        ("overlong", "penality", "is penalty meant?"),
        ("preset", "0.5b", "is 0.5B meant?"),
    ],
)
def test_a_bad_value_is_told_by_flag_value_and_range(
    flag: str, value: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(f"--{flag}", value)
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert f"--{flag}" in message
    assert f'got "{value}"' in message
    assert told in message


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"lr": -1.0}, "--lr: got -1.0, expected a number in [0, inf)"),
        ({"seed": True}, "--seed: got true, expected a whole number"),
        ({"ppo_epoch": 2.0}, "--ppo_epoch: got 2.0, expected a whole number"),
        (
            {"algorithm_name": "GRPO", "group_size": 7},
            "--episodes_per_update: got 256, expected a multiple of",
        ),
        (
            {"num_mini_batch": 9, "episodes_per_update": 8},
            "--num_mini_batch: got 9, expected at most",
        ),
        (
            {"max_new_tokens": 64, "max_episode_tokens": 64},
            "--max_new_tokens: got 64, expected less than",
        ),
    ],
)
def test_bad_values_in_code_are_told_alike(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingError) as error:
        TrainConfig(**settings)
    assert told in str(error.value)


def test_help_names_every_flag_with_its_range_and_untangles_the_algorithms_name() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, TrainConfig)
    text = " ".join(parser.format_help().split())
    assert all(
        (f"--{name} " in text) == setting.has_flag and setting.sentence
        for name, setting in SETTINGS.items()
        if hasattr(TrainConfig, name)
    )
    assert "not trust-region PPO" in text


def test_help_begins_with_the_basic_flags_and_groups_the_others() -> None:
    text = build_parser().format_help()
    titles = [
        line.rstrip(":") for line in text.splitlines() if line.endswith(":") and line[:1].strip()
    ]
    assert titles.index("basic settings") < titles.index("losses")
    assert {"losses", "critic", "optimiser", "environments and tools"} <= set(titles)
    assert text.index("--lr X") < text.index("--gamma X")
    assert "VALUE\n" not in text
    assert "--critic {head,lora,full}" in text
    assert "hermes_text" in text  # the handlers are named


def test_other_names_of_a_flag_set_the_same_field() -> None:
    assert parse("--gradient_accumulation_steps=3", "--num_envs=5") == TrainConfig(
        gradient_cp_steps=3, n_rollout_threads=5
    )


def test_every_name_elsewhere_leads_to_a_flag_and_is_none_itself() -> None:
    known = build_parser()._option_string_actions
    assert all(f"--{name}" in known or name in FORMER_FLAGS for name in NAMES_ELSEWHERE.values())
    assert not [name for name in NAMES_ELSEWHERE if f"--{name}" in known]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_fill_in_what_the_command_line_leaves_open(name: str) -> None:
    words = [f"--preset={name}", "--lr=0.5", "--model_name_or_path=own"]
    config = TrainConfig.from_args(parse_settings(words))
    assert config == TrainConfig.from_preset(name, lr=0.5, model_name_or_path="own")
    assert config.max_new_tokens == PRESETS[name]["max_new_tokens"]
    assert bool(config.lora_r) == name.endswith("lora")


def test_a_critics_warm_up_is_refused_without_a_critic() -> None:
    with pytest.raises(SettingError, match="GRPO has no critic"):
        TrainConfig(algorithm_name="GRPO", critic_warmup_episodes=64)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--group_credit step", "--group_credit: no effect without --algorithm_name GRPO"),
        ("--sequence_ratio --group_std false", "--group_std, --sequence_ratio: no effect"),
        (
            "--action_logprob_norm sum",
            "--action_logprob_norm: no effect without --algorithm_name APPO",
        ),
        (
            "--algorithm_name POAD --gamma_token 0.9",
            "--gamma_token: no effect without --algorithm_name TPPO",
        ),
        ("--algorithm_name GRPO --critic full", "--critic: no effect without a critic"),
        ("--lora_alpha 3", "--lora_alpha: no effect without --lora_r"),
    ],
)
def test_a_flag_that_does_nothing_is_refused(flags: str, told: str) -> None:
    with pytest.raises(SettingError) as refused:
        notes_of(flags.split())
    assert told in str(refused.value)


def test_a_setting_of_a_file_that_does_nothing_is_refused_too() -> None:
    for name, needs in (("kl_mode", "--kl_coef above 0"), ("overlong_penalty", "--overlong pen")):
        with pytest.raises(SettingError, match=f"^{name}: no effect without {needs}"):
            idle_flag_notes(TrainConfig(), RunConfig(), {name})


def test_what_is_idle_but_harmless_is_noted_and_defaults_are_never_told() -> None:
    words = ["--algorithm_name", "GRPO", "--lam", "0.95", "--critic_lr", "1", "--sequence_ratio"]
    idle, gspo = notes_of(words)
    assert idle.startswith("--lam, --critic_lr: no effect")
    assert "row_mean" in gspo
    for algorithm in ("TPPO", "POAD", "NTPO", "APPO", "GRPO"):
        config = TrainConfig(algorithm_name=algorithm)
        assert idle_flag_notes(config, RunConfig(), {"algorithm_name", "lr"}) == []


@pytest.mark.parametrize(
    ("flags", "corrects"),
    [
        ("--device cpu", False),
        ("--compute_dtype float32", False),
        ("--compute_dtype bfloat16", True),
        ("--max_staleness 1 --num_rollout_workers 1", True),
        ("--device cuda", True),  # whose passes are in bfloat16
    ],
)
def test_importance_weights_are_idle_where_rollouts_sample_what_learns(
    flags: str, corrects: bool
) -> None:
    words = [*flags.split(), "--importance_cap", "3"]
    notes = notes_of(words)
    assert [note.split(":")[0] for note in notes] == ["--importance_cap"] * (not corrects)


@pytest.mark.parametrize(
    ("flags", "cure"),
    [
        ("--reward success --env_name calculator", "--env_name fctncalling_env"),
        ("--reward strict --env_name CartPole-v1", "--env_name fctncalling_env"),
        ("--frozen_roles planner", "--env_name team, or an environment of your own"),
        ("--ray_address auto", "--num_rollout_workers above 0"),
        ("--rollout_worker_gpus 1", "--num_rollout_workers above 0"),
        ("--vllm_url http://localhost:8000", "--rollout_engine vllm"),
        ("--vllm_adapter_dir folder", "--rollout_engine vllm"),
    ],
)
def test_a_flag_that_its_environment_or_backend_ignores_is_refused(flags: str, cure: str) -> None:
    words = flags.split()
    with pytest.raises(SettingError) as refused:
        notes_of(words)
    assert str(refused.value).startswith(f"{words[0]}: no effect without {cure}")


def test_a_flag_that_its_environment_or_backend_ignores_harmlessly_is_noted() -> None:
    vllm = ["--rollout_engine", "vllm", "--vllm_url", "http://localhost:1", "--lora_r", "2"]
    [note] = notes_of([*vllm, "--max_cache_tokens", "9000"])
    assert note.startswith("--max_cache_tokens: no effect without --rollout_engine local")
    gym = ["--env_name", "CartPole-v1"]
    [note] = notes_of([*gym, "--dataset_path", "x", "--handler", "auto"])
    assert note.startswith("--dataset_path, --handler: no effect without")
    assert notes_of(["--env_name", "calculator", "--prompt_path", "x"]) == []
    assert notes_of(["--reward", "success"]) == []
    assert notes_of(["--num_rollout_workers", "1", "--ray_address", "auto"]) == []


def test_auto_finds_a_device_and_an_absent_one_is_told() -> None:
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")
    assert resolve_device("cpu") == torch.device("cpu")
    for name, present in (
        ("cuda", torch.cuda.is_available()),
        ("mps", torch.backends.mps.is_available()),
    ):
        if not present:
            with pytest.raises(SettingError, match=f'--device: got "{name}"'):
                resolve_device(name)


def test_settings_advantages_and_losses_load_without_transformers() -> None:
    script = (
        "import sys; import fctncalling.algorithms.config as config; assert 'torch' not in "
        "sys.modules; "
        "import fctncalling.algorithms.advantages, fctncalling.algorithms.losses, "
        "fctncalling.algorithms.ppo; "
        "assert 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
