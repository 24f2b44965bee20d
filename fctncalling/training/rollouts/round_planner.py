"""RoundPlanner: the tasks and the seed of every round that a run collects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.policy.weight_sync import Weights
from fctncalling.algorithms.rollout.task_sampler import TaskSampler
from fctncalling.training.counters import Counters
from fctncalling.training.rollouts.rollout_backends import RolloutRound

WARM_UP_EPOCH = 1000  # of the tasks' order: past those that updates come to
EVALUATION_SEED = 20  # of all evaluations of all runs: they differ by the policy alone


class RoundPlanner:
    """Plans rounds from (seed, update) alone, so a resumed run plays the same ones."""

    def __init__(self, config: TrainConfig, sampler: TaskSampler) -> None:
        self._config = config
        self._sampler = sampler
        self.group_size = config.episodes_per_task
        # that an update may collect
        self.max_rounds = config.dynamic_sampling if self.group_size > 1 else 1

    def next_round(self, counters: Counters, extra: int = 0, *, ahead: int = 0) -> RolloutRound:
        """Return a round of the next update, the first or an extra one, or of one `ahead`."""
        words = (self._config.seed, counters.updates + ahead, 1)
        seed = derive_seed(*words, extra) if extra else derive_seed(*words)
        return RolloutRound(
            task_ids=self._next_tasks(counters, extra, ahead),
            seed=seed,
            temperature=self._config.temperature,
            version=counters.updates,
            group_size=self.group_size,
        )

    def warm_up_round(self) -> RolloutRound:
        """Return the round of --critic_warmup_episodes, of tasks in an order of their own."""
        number = len(self._sampler.candidates)
        tasks = self._sampler.draw(
            min(self._config.critic_warmup_episodes, number),
            position=WARM_UP_EPOCH * number,
            update=0,
            successes={},
        )
        seed = derive_seed(self._config.seed, 0, 3)
        return RolloutRound(tuple(tasks), seed, self._config.temperature, 0)

    def _next_tasks(self, counters: Counters, extra: int, ahead: int) -> tuple[str, ...]:
        """Return the tasks of the next round, each `group_size` times in a row."""
        count = self._config.episodes_per_update // self.group_size
        drawn = self._sampler.draw(
            count,
            position=(counters.updates + ahead + counters.extra_rounds + extra) * count,
            update=counters.updates + ahead,
            successes=counters.successes,
        )
        return tuple(task_id for task_id in drawn for _ in range(self.group_size))


def evaluation_rounds(
    held_out_ids: Sequence[str], config: TrainConfig, version: int
) -> tuple[RolloutRound, RolloutRound]:
    """Return an evaluation's rounds with the weights of a version: greedy, and sampled."""
    tasks, count = tuple(held_out_ids), config.eval_samples
    several = tuple(task for task in tasks for _ in range(count))
    return (
        RolloutRound(tasks, EVALUATION_SEED, 0.0, version),
        RolloutRound(several, EVALUATION_SEED, config.temperature, version, count),
    )


def derive_seed(*words: int) -> int:
    """Return a seed below 2**31 that follows from several numbers."""
    return int(np.random.SeedSequence(words).generate_state(1)[0] & 0x7FFFFFFF)


def as_tensors(weights: Weights) -> dict[str, torch.Tensor]:
    """Return weights as a checkpoint holds them."""
    return {name: torch.tensor(weight) for name, weight in weights.items()}


def restored_round(state: Mapping[str, Any]) -> tuple[RolloutRound, Weights]:
    """Return a checkpoint's round and the weights it is played with."""
    task_ids, *more = state["round"]
    weights = {name: weight.numpy() for name, weight in state["weights"].items()}
    return RolloutRound(tuple(task_ids), *more), weights
