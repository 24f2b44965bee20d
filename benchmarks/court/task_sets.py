"""Task sets of the court: tasks of a seed's training and evaluation."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.rollout.task_sampler import CandidateTask
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.lab.embedded.make_mended_model import mended_tasks
from fctncalling.lab.embedded.mended_tasks import MendedEnv
from fctncalling.lab.embedded.model_maker import load_entries
from fctncalling.lab.embedded.stream_tasks import COLD, WARM, ErrandPool, stream_entries
from fctncalling.training.task_setup import TaskSetup

HELD_OUT = 40  # tasks
FIRST_HELD_OUT = 90_000  # number in its id
MakeTasks = Callable[..., list[Task]]


def embedded_tasks(split: str, num_tasks: int, *, seed: int, first_id: int = 0) -> list[Task]:
    """Draw embedded multi-turn tasks of a split, with new ids."""
    tasks = [task for task in load_tasks(embedded_path(split)) if task.is_multi_turn]
    return random.Random(seed).sample(tasks, num_tasks)


def stream_tasks(
    split: str, num_tasks: int, *, seed: int, first_id: int = 0, pool: ErrandPool
) -> list[Task]:
    """Draw stream tasks of a split ("train" or "held_out")."""
    return load_entries(
        stream_entries(split, num_tasks, seed=seed, first_id=first_id, errands=pool)
    )


class TaskSet(NamedTuple):
    """Tasks of one kind: how they are made and played, and the length of a run."""

    model: str
    make_tasks: MakeTasks
    make_env: Callable[[Sequence[Task]], Any]
    flags: dict[str, Any]

    def setup(self, config: TrainConfig) -> TaskSetup:
        """Make the setup of a run with as many distinct tasks as it plays, but for groups."""
        episodes = config.num_updates * config.episodes_per_update
        training = self.make_tasks("train", episodes, seed=1000 + config.seed)
        held_out = self.make_tasks("held_out", HELD_OUT, seed=0, first_id=FIRST_HELD_OUT)
        tasks = [*training, *held_out]
        return TaskSetup(
            partial(self.make_env, tasks),
            [CandidateTask(task.id, task.category, len(task.question)) for task in training],
            [task.id for task in held_out],
            self.make_env,
            training,
            held_out,
        )


def strict_env(tasks: Sequence[Task]) -> FunctionCallingEnv:
    """Make an environment with the strict reward."""
    return FunctionCallingEnv(tasks=tasks, reward="strict")


SHARED: dict[str, Any] = {
    "num_updates": 12,
    "episodes_per_update": 48,
    "n_rollout_threads": 48,
    "max_episode_tokens": 1024,
    "eval_episodes": HELD_OUT,
    "target_kl": None,
    "group_size": 1,
    "device": "cpu",
    "torch_threads": 1,
}
STREAM = partial(TaskSet, "stream_model", make_env=strict_env, flags=SHARED)
TASK_SETS = {
    "embedded": TaskSet("model", embedded_tasks, strict_env, SHARED),
    "warm": STREAM(make_tasks=partial(stream_tasks, pool=WARM)),
    "cold": STREAM(make_tasks=partial(stream_tasks, pool=COLD)),
    "mended": TaskSet("mended_model", mended_tasks, MendedEnv, SHARED),
}


def model_folder(name: str) -> Path:
    """Return the folder of a task set's start model."""
    return embedded_path(TASK_SETS[name].model)
