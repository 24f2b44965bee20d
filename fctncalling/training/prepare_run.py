"""Preparation of a TrainingRun: checks, tasks, environments, policy, rollout backend, log.

The checks come before anything is loaded or written: missing packages, files and folders.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import fctncalling
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.config.template_kwargs import parse_template_kwargs
from fctncalling.algorithms.distributed.process_group import (
    ProcessGroup,
    init_process_group,
    launch_warning,
)
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.ppo import find_algorithm
from fctncalling.algorithms.rollout.task_sampler import TaskSampler
from fctncalling.algorithms.run.logs import (
    NoLog,
    RunExistsError,
    RunLog,
    check_wandb,
    results_folder,
)
from fctncalling.algorithms.supervised import SupervisedLearner
from fctncalling.algorithms.targets import rehearse_estimate
from fctncalling.call_form import find_call_form
from fctncalling.envs.episode_runner import STATE_HASH_VERSION
from fctncalling.laboratory import import_laboratory_module
from fctncalling.model_folder import is_gguf, missing_model_message
from fctncalling.progress_bar import Stage
from fctncalling.training.announce import announce
from fctncalling.training.demonstrations import load_demonstrations
from fctncalling.training.load_policy import ModelError, critic_kind, load_policy
from fctncalling.training.resume import (
    checkpoint_to_resume,
    keep_form,
    keep_template,
    supervised_stage_is_ahead,
)
from fctncalling.training.rollouts.choose_rollout import check_rollout, choose_rollout
from fctncalling.training.run_config import RunConfig
from fctncalling.training.run_loop import progress_text
from fctncalling.training.task_setup import TaskSetup, make_task_setup
from fctncalling.training.teams import team_roles
from fctncalling.training.training_run import TrainingRun
from fctncalling.training.user_code import check_algorithm


def prepare_run(
    config: TrainConfig, run_config: RunConfig, task_setup: TaskSetup | None = None
) -> TrainingRun:
    """Prepare a training run, new or restored from the checkpoint of --resume.

    `task_setup` replaces the environments of the settings.
    """
    check_start(config, run_config)
    processes = init_process_group(config.device, fsdp=config.fsdp)
    announce(*filter(None, (f"Training in {processes}.", launch_warning(processes))))
    folder = results_folder(config)
    checkpoint = checkpoint_to_resume(config, folder, is_first=processes.is_first)
    run_config = dataclasses.replace(run_config)  # the call form is resolved in it
    if checkpoint is not None:
        run_config = keep_form(keep_template(run_config, checkpoint), checkpoint)
    setup = task_setup or make_task_setup(config, run_config)
    sampler = TaskSampler(setup.candidates, config)  # refuses flags, so before what takes long
    roles = team_roles(config, setup.make_env, processes)
    with Stage("loading the model", shown=processes.is_first):
        policy, template = load_policy(config, run_config, checkpoint, processes.device, roles)
    form = find_call_form(template)
    _check_and_announce(config, run_config, policy, template)
    if checkpoint is None and config.env_name in WITH_CALL_FORM and run_config.handler == "auto":
        # Environments read the setting when they are made; a resumed run keeps its form.
        if form.is_unread:
            announce(f"Warning: {form.line}; BFCL's form stands in. --handler NAME gives another.")
        elif form.text:
            announce(f"Call form: {form.line}.")
            run_config.handler = form.handler_name
    check_central_critic(config, policy, template, len(roles))
    is_ahead = supervised_stage_is_ahead(config, checkpoint)
    demonstrations = load_demonstrations(config, run_config, setup, template) if is_ahead else []
    rollout = choose_rollout(config, run_config, policy, template, setup, processes)
    run = TrainingRun(
        config,
        policy=policy,
        template=template,
        rollout=rollout,
        sampler=sampler,
        held_out_ids=setup.held_out_ids,
        # last of all: a start that fails leaves no folder behind
        log=open_log(config, run_config, folder, processes),
        log_episodes_interval=run_config.log_episodes_interval,
        log_tokens_interval=run_config.log_tokens_interval,
        processes=processes,
    )
    if demonstrations:
        run.supervised = SupervisedLearner(policy, demonstrations, config, processes)
    if checkpoint is not None:
        run.restore(checkpoint)
        announce(f"Going on from {checkpoint}, after {progress_text(run)}.")
    else:
        run.log.rewind({}, -1)  # lines of a killed run that saved nothing
    return run


WITH_CALL_FORM = ("fctncalling_env", "clarify", "team")
"""Environments whose calls are written as --handler says."""


def _check_and_announce(
    config: TrainConfig, run_config: RunConfig, policy: ActorCritic, template: ChatTemplate
) -> None:
    """Check the chat template; announce settings that replace the algorithm's defaults.

    And limits of prefix sharing, which the policy finds before its weights are sharded.
    """
    announce(*learning_notes(config))
    style = run_config.prompt_style
    if style != "bfcl" and template.takes_tools:
        raise SettingError(
            f"--prompt_style {style}: this model's chat template writes tools in its own form; "
            "leave it out, or give --chat_template FILE that takes no tools"
        )
    if not run_config.no_doctor:
        check_template(template, run_config.handler)
    sharing = policy.prefix_sharing if config.share_prefixes else None
    if isinstance(sharing, str):
        announce(f"Note: --share_prefixes: {sharing}; the update computes each row separately.")
    elif sharing is not None and sharing.max_row is not None:
        announce(
            f"Note: --share_prefixes: updates with a row of more than {sharing.max_row} tokens, "
            "the model's sliding window, compute each row separately."
        )


def learning_notes(config: TrainConfig) -> list[str]:
    """Return notes on unusual credit assignment and episodes of an update; none without updates."""
    notes = list[str]()
    if not config.num_updates:
        return notes
    selects = config.dynamic_sampling > 1 and config.episodes_per_task > 1
    if config.has_own_algorithm:
        seen, taken = "all episodes", "taken as they are"
        if selects:
            seen = "the episodes of groups that differ alone (--dynamic_sampling 1: all)"
        if config.whiten_advantages and find_algorithm(config.algorithm_name).critic:
            taken = "whitened (--whiten_advantages false: taken as they are)"
        name = config.algorithm_name
        notes.append(f"{name}: the estimate sees {seen}; its advantages are {taken}.")
    if config.policy_credit != f"{config.algorithm_name}'s estimate":
        notes.append(f"Policy credit: {config.policy_credit}.")
    if selects:
        wanted = config.episodes_per_update
        notes.append(
            f"Episodes of an update: {wanted}, and up to {config.dynamic_sampling * wanted} until "
            f"{wanted} are in groups that differ; it learns from those alone, fewer or more "
            f"(--dynamic_sampling {config.dynamic_sampling})."
        )
    return notes


def open_log(
    config: TrainConfig, run_config: RunConfig, folder: Path, processes: ProcessGroup
) -> RunLog:
    """Open the log of a run; only the first of several processes writes it."""
    if not processes.is_first:
        return NoLog(folder)
    described = {**dataclasses.asdict(config), **dataclasses.asdict(run_config)}
    kwargs = parse_template_kwargs(run_config.chat_template_kwargs)
    described["chat_template_kwargs"] = kwargs or None
    devices = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    machine = {"system": platform.platform(), "cores": os.cpu_count(), "torch_devices": devices}
    # entries other than settings, which --config FILE passes over
    described |= {
        "command": shlex.join(sys.argv),
        "machine": machine,
        "num_processes": processes.count,
        "resolved": resolved_settings(config, processes.device),
        "versions": library_versions(),
    }
    resume, wandb = config.resume is not None, run_config.wandb
    try:
        return RunLog(
            folder, described, resume=resume, tensorboard=run_config.tensorboard, wandb=wandb
        )
    except RunExistsError:
        raise
    except OSError as error:
        raise SettingError(
            f"--results_dir {config.results_dir}: cannot be written to ({error})"
        ) from error


def library_versions() -> dict[str, str]:
    """Return the versions of this package, Python and the libraries in use."""
    names = ("torch", "transformers", "tokenizers", "numpy", "gymnasium")
    versions = {"fctncalling": fctncalling.__version__, "commit": _commit()}
    versions["state_hash"] = STATE_HASH_VERSION
    versions |= {"python": platform.python_version(), **{name: version(name) for name in names}}
    return {name: value for name, value in versions.items() if value}


def _commit() -> str:
    """Return the git commit of a clone, with "-dirty" if files were changed.

    "" where this package is no clone, or there is no git.
    """
    root = Path(fctncalling.__file__).resolve().parents[1]
    if not (root / ".git").exists():  # else a repository that the package is installed in answers
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(
            [*command, "--exclude=*"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def resolved_settings(config: TrainConfig, device: torch.device) -> dict[str, Any]:
    """Return the values that "auto" and None were resolved to."""
    from fctncalling.algorithms.policy.precision import compute_dtype, weights_dtype

    names = {
        "base_dtype": weights_dtype(config, device),
        "compute_dtype": compute_dtype(config, device),
    }
    types = {name: str(dtype).removeprefix("torch.") for name, dtype in names.items()}
    of_learning = {"gamma": config.resolved_gamma, "policy_credit": config.policy_credit}
    if config.target_kl is not None:
        of_learning["step_guard"] = f"KL above {config.target_kl} x max(1, entropy)"
    return {"device": str(device), **of_learning, **types}


def check_start(config: TrainConfig, run_config: RunConfig) -> None:
    """Raise SettingError or ModelError for settings that would end the run later."""
    check_rollout(config, run_config)
    check_wandb(run_config.wandb)
    check_algorithm(config.algorithm_name)
    if config.has_own_algorithm:
        rehearse_estimate(find_algorithm(config.algorithm_name), config)
    parse_template_kwargs(run_config.chat_template_kwargs)
    _check_results_dir(Path(config.results_dir))
    check_model_name(config)
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


def check_model_name(config: TrainConfig) -> None:
    """Raise ModelError for a folder without a model's files, or a name that the hub does not give.

    GGUF files are checked as they are converted.
    """
    model = config.model_name_or_path
    if model is not None and (not is_gguf(model) or Path(model).expanduser().is_dir()):
        missing = missing_model_message(model)
        if missing:
            raise ModelError(f"--model_name_or_path {model}: the model cannot be loaded: {missing}")


def check_central_critic(
    config: TrainConfig, policy: ActorCritic, template: ChatTemplate, num_roles: int
) -> None:
    """Raise SettingError if a central critic cannot read separate rows."""
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


def check_template(template: ChatTemplate, handler: str = "auto") -> None:
    """Raise SettingError if chat template or tokenizer would spoil training.

    What is left out of a history before calls is announced. handler: of --handler; a form that is
    named there need not be the template's own.

    Takes some 0.1 s.
    """
    for finding in import_laboratory_module("doctor.template_findings").chat_template_findings(
        template, handler
    ):
        if finding.is_fault:
            raise SettingError(
                f"{finding.line}. This would spoil training (fctncalling doctor tells "
                "more); --no_doctor trains all the same"
            )
        if finding.check == "before calls":
            announce(f"Note: {finding.line}.")


def _check_results_dir(folder: Path) -> None:
    """Raise SettingError if a folder, which need not exist yet, is not writable."""
    existing = folder.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    why = "" if existing.is_dir() else f"{existing} is no folder"
    if not why and not os.access(existing, os.W_OK | os.X_OK):
        why = f"no permission in {existing}"
    if why:
        raise SettingError(f"--results_dir {folder}: cannot be written to ({why})")
