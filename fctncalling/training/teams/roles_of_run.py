"""Roles that get weights of their own, known before the policy is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup

_NAME = re.compile(r"[A-Za-z0-9_-]+")  # also of a folder, and of a part of a weight's name


def roles_of_run(
    config: TrainConfig, make_env: Callable[[], Any], processes: ProcessGroup
) -> tuple[str, ...]:
    """Return the roles, none without --role_adapters and --team_critic per_role or central.

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
    _check_names(names, flag)
    _check_frozen(config.frozen, names)
    return names


def _check_names(names: Sequence[str], flag: str) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise SettingError(
                f'{flag}: role "{name}": its weights are saved under its name: expected letters, '
                "digits, _ and - alone"
            )
    if len({name.lower() for name in names}) < len(names):
        raise SettingError(f"{flag}: roles {', '.join(names)}: two of them have one name")


def _check_frozen(frozen: Sequence[str], names: Sequence[str]) -> None:
    for name in frozen:
        if name not in names:
            raise SettingError(
                f'--frozen_roles: got "{name}", expected roles of the environment: '
                f"{', '.join(names)}"
            )
