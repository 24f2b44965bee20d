"""Throughput lost if four of 32 environments have a tool of one second."""

from __future__ import annotations

import random
import time
from functools import partial
from statistics import median
from typing import Any

import gymnasium
from transformers import AutoTokenizer

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.rollout.env_pool import ThreadEnvPool
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.envs.function_calling import FunctionCallingEnv

LEAST, NUM_ENVS, NUM_SLOW, TOOL_S = 0.85, 32, 4, 1.0
NUM_EPISODES = 800


class SlowTool(gymnasium.Wrapper[str, str, str, str]):
    """Environment in which every step waits for a slow tool."""

    def __init__(self, env: Any, seconds: float) -> None:
        super().__init__(env)
        self.seconds, self.metadata = seconds, {}

    def step(self, action: str) -> Any:
        """Wait, then step."""
        if self.seconds:
            time.sleep(self.seconds)
        return super().step(action)


def _note(ended: list[tuple[float, int]], record: EpisodeRecord) -> None:
    ended.append((time.perf_counter(), record.num_steps))


def slow_tools(rounds: int) -> tuple[float, float, bool]:
    """Return the remaining share of throughput, its bound, and whether it holds."""
    tasks = random.Random(0).sample(load_tasks(embedded_path("train")), NUM_EPISODES)
    path = str(embedded_path("model"))
    template = ChatTemplate(AutoTokenizer.from_pretrained(path))
    model = ActorCritic.load(path).model
    engine = GenerationEngine(model, template.stop_ids, max_new_tokens=64, decode=template.decode)
    pools = []
    for num_slow in (NUM_SLOW, 0):
        delays = iter([TOOL_S] * num_slow + [0.0] * NUM_ENVS)
        pools.append(
            ThreadEnvPool(
                lambda d=delays: SlowTool(FunctionCallingEnv(tasks=tasks), next(d)), NUM_ENVS
            )
        )  # type: ignore[misc]
    ids = [task.id for task in tasks]

    def steps_a_second(pool: ThreadEnvPool, count: int) -> float:
        """Return the steps per second until the last episodes are handed out."""
        ended: list[tuple[float, int]] = []
        note = partial(_note, ended)
        started = time.perf_counter()
        collect(pool, engine, template, ids[:count], max_episode_tokens=1024, on_episode=note)
        counted = ended[: count - NUM_ENVS]
        return sum(steps for _, steps in counted) / (counted[-1][0] - started)

    steps_a_second(pools[1], 64)  # warms
    pairs = [[steps_a_second(pool, NUM_EPISODES) for pool in pools] for _ in range(rounds)]
    share = median(slow / plain for slow, plain in pairs)
    plain = median(plain for _, plain in pairs)
    print(
        f"{NUM_EPISODES} episodes in {NUM_ENVS} environments: {plain:.0f} steps/s without slow "
        "tools"
    )
    return share, LEAST, share >= LEAST
