"""Prepare a TrainingRun: tasks, environments, policy, rollout backend and log."""

from __future__ import annotations

from pathlib import Path

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import (
    ProcessGroup,
    init_process_group,
    launch_warning,
)
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.task_sampler import TaskSampler
from fctncalling.algorithms.run.logs import results_folder
from fctncalling.algorithms.supervised import SupervisedLearner
from fctncalling.laboratory import import_laboratory_module
from fctncalling.training.announce import announce
from fctncalling.training.demonstrations import load_demonstrations
from fctncalling.training.load_policy import load_policy
from fctncalling.training.resume import checkpoint_to_resume, supervised_stage_is_ahead
from fctncalling.training.rollouts.choose_rollout import check_rollout, choose_rollout
from fctncalling.training.run_config import RunConfig
from fctncalling.training.run_log import open_log
from fctncalling.training.start_checks import (
    check_central_critic,
    check_prompt_style,
    check_start,
    check_template,
)
from fctncalling.training.supervised_stage import progress_text
from fctncalling.training.task_setup import TaskSetup, make_task_setup
from fctncalling.training.teams import team_roles
from fctncalling.training.training_run import TrainingRun


def prepare_run(
    config: TrainConfig, run_config: RunConfig, task_setup: TaskSetup | None = None
) -> TrainingRun:
    """Prepare a run of training: at its start, or restored from the checkpoint of --resume.

    `task_setup` replaces the environments of the settings.
    """
    processes = _start_processes(config, run_config)
    folder = results_folder(config)
    checkpoint = checkpoint_to_resume(config, folder, is_first=processes.is_first)
    setup = task_setup or make_task_setup(config, run_config)
    sampler = TaskSampler(setup.candidates, config)  # refuses flags, so before what takes long
    roles = team_roles(config, setup.make_env, processes)
    policy, template = load_policy(config, run_config, checkpoint, processes.device, roles)
    _check_and_announce(config, run_config, policy, template)
    check_central_critic(config, policy, template, len(roles))
    is_ahead = supervised_stage_is_ahead(config, checkpoint)
    shown = load_demonstrations(config, run_config, setup, template) if is_ahead else []
    source = None
    if run_config.agent_command is not None:
        part = import_laboratory_module("gateway.agent_source")
        source = part.agent_source(config, run_config, setup, template, processes.count)
    rollout = choose_rollout(
        config,
        run_config,
        policy=policy,
        template=template,
        make_env=setup.make_env,
        processes=processes,
        source=source,
    )
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
    _restore(run, checkpoint, shown)
    return run


def _restore(run: TrainingRun, checkpoint: Path | None, shown: list[EpisodeRecord]) -> None:
    """Restore a run, with its supervised stage, from a checkpoint, or clear its log."""
    if shown:
        run.supervised = SupervisedLearner(run.policy, shown, run.config, run.processes)
    if checkpoint is not None:
        run.restore(checkpoint)
        announce(f"Going on from {checkpoint}, after {progress_text(run)}.")
    else:
        run.log.rewind({}, -1)  # lines of a killed run that saved nothing


def _check_and_announce(
    config: TrainConfig, run_config: RunConfig, policy: ActorCritic, template: ChatTemplate
) -> None:
    """Check the chat template.

    Announce limits of prefix sharing, which the policy finds before its weights are sharded.
    """
    check_prompt_style(run_config.prompt_style, template)
    if not run_config.no_doctor:
        check_template(template)
    sharing = policy.prefix_sharing if config.share_prefixes else None
    if isinstance(sharing, str):
        announce(f"Note: --share_prefixes: {sharing}; the update computes each row separately.")
    elif sharing is not None and sharing.max_row is not None:
        announce(
            f"Note: --share_prefixes: updates with a row of more than {sharing.max_row} tokens, "
            "the model's sliding window, compute each row separately."
        )


def _start_processes(config: TrainConfig, run_config: RunConfig) -> ProcessGroup:
    """Check the settings; return the process group of this launch and announce its size."""
    check_rollout(config, run_config)
    check_start(config, run_config)
    processes = init_process_group(config.device, fsdp=config.fsdp)
    announce(*filter(None, (f"Training in {processes}.", launch_warning(processes))))
    return processes
