"""Cross-field validation of TrainConfig: settings that contradict each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fctncalling.algorithms.config.config_fields import SettingError

# A TrainConfig; importing its class, which calls these checks, would close a circle.
Settings = Any


def check_combinations(config: Settings) -> None:
    """Raise SettingError, naming the flags, where two settings contradict each other."""
    experiment = Path(config.experiment_name)
    if not experiment.parts or experiment.is_absolute() or ".." in experiment.parts:
        raise SettingError(
            f'--experiment_name: got "{config.experiment_name}", expected the name of a folder '
            "below --results_dir"
        )
    _check_episode_numbers(config)
    _check_critic(config)
    _check_roles(config)
    _check_token_limits(config)
    if config.has_supervised_stage and config.kl_coef:
        raise SettingError(
            "--kl_coef: got a reference, which would be the model before --sft_tasks or "
            "--sft_episodes; learn these alone (--num_updates 0), then start a run from that "
            "checkpoint (--model_name_or_path)"
        )


def _check_episode_numbers(config: Settings) -> None:
    if config.num_mini_batch > config.episodes_per_update:
        raise SettingError(
            f"--num_mini_batch: got {config.num_mini_batch}, expected at most "
            "--episodes_per_update "
            f"({config.episodes_per_update}): a minibatch holds whole episodes"
        )
    if config.algorithm_name == "GRPO" and config.episodes_per_task < 2:
        raise SettingError(
            f"--group_size: got {config.episodes_per_task}, expected at least 2: GRPO compares "
            "episodes of one task"
        )
    if config.episodes_per_update % config.episodes_per_task:
        raise SettingError(
            f"--episodes_per_update: got {config.episodes_per_update}, expected a multiple of "
            f"--group_size ({config.episodes_per_task}): every task is played so many times"
        )


def _check_critic(config: Settings) -> None:
    if config.algorithm_name == "GRPO" and (
        config.critic_warmup_updates or config.init_critic_from
    ):
        raise SettingError(
            "--critic_warmup_updates, --init_critic_from: GRPO has no critic; leave them out"
        )
    if config.critic == "lora" and not config.lora_r:
        raise SettingError(
            "--critic: got lora, which needs --lora_r of at least 1; or take head or full"
        )


def _check_roles(config: Settings) -> None:
    flags = [f"--team_critic {config.team_critic}"] if config.team_critic != "shared" else []
    if config.role_adapters:
        flags.append("--role_adapters")
        if not config.lora_r:
            raise SettingError("--role_adapters: needs --lora_r of at least 1, their rank")
    if config.team_critic == "central" and config.critic == "head":
        raise SettingError(
            "--team_critic central: reads other rows than the policy does, which needs --critic "
            "full, or lora with --lora_r"
        )
    if flags and config.has_supervised_stage:
        raise SettingError(
            f"{flags[0]}: --sft_tasks and --sft_episodes are of one agent, without roles; leave "
            "them out"
        )


def _check_token_limits(config: Settings) -> None:
    if config.max_cache_tokens is not None and config.max_cache_tokens < config.max_episode_tokens:
        raise SettingError(
            f"--max_cache_tokens: got {config.max_cache_tokens}, which one episode of "
            "--max_episode_tokens "
            f"({config.max_episode_tokens}) does not fit into: raise the one or lower the other"
        )
    if config.max_new_tokens >= config.max_episode_tokens:
        raise SettingError(
            f"--max_new_tokens: got {config.max_new_tokens}, expected less than "
            "--max_episode_tokens "
            f"({config.max_episode_tokens}), which has to hold the prompt too"
        )
