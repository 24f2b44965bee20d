"""Choose the environment pool (threads or processes) from the config."""

from __future__ import annotations

import math

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.rollout.async_pool import AsyncEnvPool
from fctncalling.algorithms.rollout.env_pool import EnvPool, MakeEnv
from fctncalling.algorithms.rollout.process_pool import ProcessEnvPool
from fctncalling.algorithms.rollout.thread_pool import ThreadEnvPool


def make_env_pool(config: TrainConfig, make_env: MakeEnv, share: int = 1) -> EnvPool:
    """Return the environment pool of one of `share` rollout processes.

    SettingError where the environments cannot be made in --env_processes processes.
    """
    count = num_parallel_episodes(config, share)
    envs: AsyncEnvPool
    if config.env_processes:
        try:
            envs = ProcessEnvPool(make_env, count, config.env_processes)
        except (TypeError, RuntimeError) as error:
            raise SettingError(
                f"--env_processes: got {config.env_processes}, but {error}; 0 keeps threads"
            ) from error
    else:
        envs = ThreadEnvPool(make_env, count)
    envs.in_order = config.wait_for_tools != "never"
    # A replayed log itself says which responses were late.
    if config.wait_for_tools == "always" or config.replay_arrivals is not None:
        envs.patience_s = math.inf
        envs.in_order = True
    return envs


def num_parallel_episodes(config: TrainConfig, share: int = 1) -> int:
    """Return how many episodes run at a time.

    --n_rollout_threads, or as many as --max_cache_tokens holds at full length.
    """
    requested = -(-config.n_rollout_threads // share)
    room = (
        math.inf
        if config.max_cache_tokens is None
        else config.max_cache_tokens // config.max_episode_tokens
    )
    return int(min(requested, max(1, room)))


def deadline_s(config: TrainConfig) -> float:
    """Return the seconds an environment may spend on one episode."""
    return math.inf if config.tool_deadline_s is None else config.tool_deadline_s
