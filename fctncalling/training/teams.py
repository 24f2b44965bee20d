"""Roles in a run: their environments, and which roles learn."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.data.types import Task
from fctncalling.envs.team import TeamEnv
from fctncalling.envs.teams import TeamError, load_team
from fctncalling.envs.teams.parcels import parcel_tasks
from fctncalling.training.run_config import RunConfig

_NAME = re.compile(r"[A-Za-z0-9_-]+")  # also of a folder, and of a part of a weight's name


def team_roles(
    config: TrainConfig, make_env: Callable[[], Any], processes: ProcessGroup
) -> tuple[str, ...]:
    """Return the roles of a run's team; none if all share the weights and the critic.

    SettingError where they are not to be known.

    The environment's attribute `roles` names them; a run learns of all else from `info["role"]`.
    """
    if not config.role_adapters and config.team_critic == "shared":
        return ()
    flag = "--role_adapters" if config.role_adapters else f"--team_critic {config.team_critic}"
    if processes.sharding is not None:
        raise SettingError(f"{flag}: does not go with FSDP; leave out one of the two")
    env = make_env()
    try:
        roles = getattr(getattr(env, "unwrapped", env), "roles", None)
    finally:
        env.close()
    if not roles:
        raise SettingError(
            f"{flag}: the environment of --env_name {config.env_name} names no roles: expected an "
            'attribute roles, a list of what its info["role"] will be'
        )
    names = tuple(str(role) for role in roles)
    for name in names:
        if not _NAME.fullmatch(name):
            raise SettingError(
                f'{flag}: role "{name}": its weights are saved under its name: expected letters, '
                "digits, _ and - alone"
            )
    if len({name.lower() for name in names}) < len(names):
        raise SettingError(f"{flag}: roles {', '.join(names)}: two of them have one name")
    _check_frozen(config, names, "environment")
    return names


def _check_frozen(config: TrainConfig, names: Collection[str], owner: str) -> None:
    for name in config.frozen_role_names:
        if name not in names:
            raise SettingError(
                f'--frozen_roles: got "{name}", expected roles of the {owner}: {", ".join(names)}'
            )


TRAINING_TASKS = 2000  # parcels to train on
TABLE_SIZE = 1  # rows of their tables: what the embedded model can read
HELD_OUT_TASKS = 100  # parcels to evaluate on, at most


def parcel_task_split(config: TrainConfig) -> tuple[list[Task], list[Task]]:
    """Return parcel tasks for training and for evaluation."""
    held_out = min(HELD_OUT_TASKS, config.eval_episodes)
    training = parcel_tasks("train", TRAINING_TASKS, table_size=TABLE_SIZE)
    return training, parcel_tasks("held_out", held_out, table_size=TABLE_SIZE)


def team_env_maker(
    config: TrainConfig, run_config: RunConfig, tasks: Sequence[Task]
) -> Callable[[], TeamEnv]:
    """Return a function that makes team environments; SettingError if the team does not fit."""
    default = "parcels" if config.dataset_path is None else "planner_caller"
    try:
        team = load_team(run_config.team or default)
        team.check_tasks(
            {doc.name for task in tasks for doc in task.functions},
            {name for task in tasks for name in task.extra.get("knowledge", ())},
        )
    except TeamError as error:
        raise SettingError(f"--team: {error}") from error
    _check_frozen(config, team.roles, "team")
    # read when an environment is made: --handler auto is resolved by then
    return lambda: TeamEnv(
        team=team,
        tasks=tasks,
        handler=run_config.handler,
        strict=True,
        max_steps_per_turn=config.max_steps_per_turn,
        allow_task_tools=run_config.allow_task_tools,
        corrective_feedback=run_config.corrective_feedback,
        prompt_style=run_config.prompt_style,
    )
