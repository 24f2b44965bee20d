"""Checks before anything is loaded or written: missing packages, files and folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.run.logs import check_wandb
from fctncalling.laboratory import import_laboratory_module
from fctncalling.model_folder import is_gguf, missing_model_message
from fctncalling.training.load_policy import ModelError, critic_kind
from fctncalling.training.run_config import RunConfig

if TYPE_CHECKING:
    from fctncalling.algorithms.policy.actor_critic import ActorCritic
    from fctncalling.algorithms.policy.chat_template import ChatTemplate


def check_start(config: TrainConfig, run_config: RunConfig) -> None:
    """Check at the start what settings would end the run later; SettingError, ModelError."""
    check_wandb(run_config.wandb)
    _check_results_dir(Path(config.results_dir))
    if config.model_name_or_path is not None:
        check_model(config.model_name_or_path)
    for flag, path in (
        ("chat_template", run_config.chat_template),
        ("prompt_path", run_config.prompt_path),
        ("tool_config_path", run_config.tool_config_path),
    ):
        if path is not None and not Path(path).is_file():
            raise SettingError(f"--{flag} {path}: cannot be read (there is no such file)")
    critic = config.init_critic_from
    if critic is not None and critic_kind(Path(critic)) is None:
        raise SettingError(
            f"--init_critic_from: {critic} holds no critic; give a folder such as "
            "RUN/checkpoints/last"
        )


def check_model(name: str) -> None:
    """Check the model: that transformers can load it; ModelError.

    GGUF files are checked as they are converted.
    """
    if is_gguf(name) and not Path(name).expanduser().is_dir():
        return
    if missing := missing_model_message(name):
        raise ModelError(f"--model_name_or_path {name}: the model cannot be loaded: {missing}")


def check_prompt_style(style: str, template: ChatTemplate) -> None:
    """Check the prompt style: that the chat template shows tools in it; SettingError."""
    if style != "bfcl" and template.takes_tools:
        raise SettingError(
            f"--prompt_style {style}: this model's chat template writes tools in its own form; "
            "leave it out, or give --chat_template FILE that takes no tools"
        )


def check_central_critic(
    config: TrainConfig, policy: ActorCritic, template: ChatTemplate, num_roles: int
) -> None:
    """Check that a central critic can read rows of its own; SettingError."""
    if not config.critic_has_own_rows:
        return
    flag = "--critic_sees truth" if config.critic_sees == "truth" else "--team_critic central"
    num_roles = max(num_roles, 1)
    if not template.append_only:
        raise SettingError(
            f"{flag}: this model's chat template rewrites its history, so that no one conversation "
            "can be read in order of time; give --chat_template FILE that does not"
        )
    longest = (num_roles + 1) * config.max_episode_tokens  # each role's row, and the state
    positions = getattr(policy.model.config, "max_position_embeddings", None)
    if positions is not None and positions < longest:
        raise SettingError(
            f"{flag}: reads up to {longest} tokens, {num_roles + 1} times "
            f"--max_episode_tokens, the model {positions} at most; lower --max_episode_tokens"
        )


def check_template(template: ChatTemplate) -> None:
    """Check that chat template and tokenizer do not spoil training; SettingError.

    Takes some 0.1 s.
    """
    for each in import_laboratory_module("doctor.template_findings").chat_template_findings(
        template
    ):
        if each.is_fault:
            raise SettingError(
                f"{each.line}. This would spoil training (fctncalling doctor tells "
                "more); --no_doctor trains all the same"
            )


def _check_results_dir(folder: Path) -> None:
    """Raise SettingError if nothing can be written below a folder, which need not exist yet."""
    existing = folder.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise SettingError(
            f"--results_dir {folder}: cannot be written to ({existing} is no folder)"
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise SettingError(
            f"--results_dir {folder}: cannot be written to (no permission in {existing})"
        )
