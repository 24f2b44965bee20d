"""Environments and tasks of --env_name team."""

from __future__ import annotations

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.data.types import Task
from fctncalling.envs.team import TeamEnv
from fctncalling.envs.teams import Team, TeamError, load_team
from fctncalling.envs.teams.parcels import parcel_tasks
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import TaskSetup, check_tasks
from fctncalling.training.task_split import load_bfcl_tasks

TRAINING_TASKS = 2000  # parcels to train on
EVALUATED = 100  # parcels held out, at most


def team_setup(config: TrainConfig, run_config: RunConfig) -> TaskSetup:
    """Return TeamEnvs on parcels, or on BFCL tasks; SettingError names what is wrong with a team,
    TaskError what is wrong with a file.
    """
    from fctncalling.algorithms.rollout.task_sampler import Candidate

    if config.model_name_or_path is None:
        raise SettingError(
            "--env_name team: needs --model_name_or_path, as no embedded model plays in a team"
        )
    if config.dataset_path is None:
        training = parcel_tasks("train", TRAINING_TASKS)
        held_out = parcel_tasks("held_out", min(EVALUATED, config.eval_episodes))
    else:
        training, held_out = load_bfcl_tasks(config)
        check_tasks(training, config.dataset_path, config, run_config)
        check_tasks(
            held_out, str(config.eval_dataset_path or config.dataset_path), config, run_config
        )
    tasks = tuple({task.id: task for task in (*training, *held_out)}.values())
    default = "parcels" if config.dataset_path is None else "planner_caller"
    team = _team(run_config.team or default, tasks, config)

    def make_env() -> TeamEnv:
        return TeamEnv(
            team=team,
            tasks=tasks,
            handler=run_config.handler,
            strict=True,
            max_steps_per_turn=config.max_steps_per_turn,
            allow_task_tools=run_config.allow_task_tools,
            corrective_feedback=run_config.corrective_feedback,
            prompt_style=run_config.prompt_style,
        )

    candidates = [
        Candidate(task.id, task.category, len(task.question), task.difficulty) for task in training
    ]
    return TaskSetup(make_env, candidates, [task.id for task in held_out])


def _team(source: str, tasks: tuple[Task, ...], config: TrainConfig) -> Team:
    """Return the team, checked against the tasks and the roles that flags name."""
    try:
        team = load_team(source)
        team.check_tasks(
            {doc.name for task in tasks for doc in task.functions},
            {name for task in tasks for name in task.extra.get("knowledge", ())},
        )
    except TeamError as error:
        raise SettingError(f"--team: {error}") from error
    for name in config.frozen:
        if name not in team.roles:
            raise SettingError(
                f'--frozen_roles: got "{name}", expected roles of the team: {", ".join(team.roles)}'
            )
    return team
