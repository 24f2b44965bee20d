"""RoundPlanner: the tasks and the seed of every round that a run collects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.policy.weight_sync import Weights
from fctncalling.algorithms.rollout.collect import SeedStream, derive_seed
from fctncalling.algorithms.rollout.task_sampler import TaskSampler
from fctncalling.training.counters import Counters
from fctncalling.training.rollouts.rollout_backends import Rollout, RolloutRound

WARM_UP_EPOCH = 1000  # of the tasks' order: past those that updates come to
EVALUATION_SEED = 20  # of all evaluations of all runs: they differ by the policy alone


class RoundPlanner:
    """Planner of rollout rounds, from (seed, update) alone."""

    def __init__(self, config: TrainConfig, sampler: TaskSampler) -> None:
        self._config = config
        self._sampler = sampler
        self.group_size = config.episodes_per_task
        # that an update may collect
        self.max_rounds = config.dynamic_sampling if self.group_size > 1 else 1

    def next_round(self, counters: Counters, extra: int = 0, *, ahead: int = 0) -> RolloutRound:
        """Return the round of the next update, or an extra one, or one `ahead`."""
        words = (self._config.seed, counters.updates + ahead, SeedStream.ROLLOUT)
        seed = derive_seed(*words, extra) if extra else derive_seed(*words)
        count = self._config.episodes_per_update // self.group_size
        drawn = self._sampler.draw(
            count,
            position=(counters.updates + ahead + counters.extra_rounds + extra) * count,
            update=counters.updates + ahead,
            successes=counters.successes,
        )
        return RolloutRound(
            task_ids=tuple(task for task in drawn for _ in range(self.group_size)),
            seed=seed,
            temperature=self._config.temperature,
            version=counters.updates,
            group_size=self.group_size,
        )

    def warm_up_round(self) -> RolloutRound:
        """Return the round of the critic's warm-up (--critic_warmup_episodes)."""
        number = len(self._sampler.candidates)
        tasks = self._sampler.draw(
            min(self._config.critic_warmup_episodes, number),
            position=WARM_UP_EPOCH * number,
            update=0,
            successes={},
        )
        seed = derive_seed(self._config.seed, 0, SeedStream.CRITIC_WARM_UP_ROLLOUT)
        return RolloutRound(tuple(tasks), seed, self._config.temperature, 0)


def evaluation_rounds(
    held_out_ids: Sequence[str], config: TrainConfig, version: int
) -> tuple[RolloutRound, RolloutRound]:
    """Return the rounds of an evaluation: greedy, and sampled."""
    tasks, count = tuple(held_out_ids), config.eval_samples
    several = tuple(task for task in tasks for _ in range(count))
    return (
        RolloutRound(tasks, EVALUATION_SEED, 0.0, version),
        RolloutRound(several, EVALUATION_SEED, config.temperature, version, count),
    )


def restore_round(state: Mapping[str, Any]) -> tuple[RolloutRound, Weights]:
    """Restore a round, and the weights it is played with, from a checkpoint's state."""
    task_ids, *more = state["round"][: len(RolloutRound._fields)]  # 0.4's had a field more
    weights = {name: weight.numpy() for name, weight in state["weights"].items()}
    return RolloutRound(tuple(task_ids), *more), weights


class PrefetchedRounds:
    """Prefetched rounds of the next `max_staleness` updates, started as weights for them exist.

    The round of update k + N is begun with the weights of update k, so a batch is N updates behind,
    whatever the workers' speed; the first N rounds all have the weights of the start.
    """

    def __init__(self, config: TrainConfig, planner: RoundPlanner, rollout: Rollout) -> None:
        self._config = config
        self._planner = planner
        self._rollout = rollout
        self._rounds: deque[RolloutRound] = deque()  # of the next updates, in order

    def next_round(self, counters: Counters) -> RolloutRound:
        """Return the round of the next update; it stays until `finish_round`."""
        return self._rounds[0] if self._rounds else self._planner.next_round(counters)

    def finish_round(self, counters: Counters) -> None:
        """Finish the round of the next update: drop it, and start those after it."""
        if self._rounds:
            self._rounds.popleft()
        while len(self._rounds) < self._config.max_staleness:
            ahead = len(self._rounds) + 1
            self._rounds.append(self._planner.next_round(counters, ahead=ahead))
            # a later command may go on past the end
            goes_on = counters.updates + ahead < self._config.num_updates
            self._rollout.start_round(self._rounds[-1], now=goes_on)

    def state(self) -> list[dict[str, Any]]:
        """Return the state for a checkpoint: the rounds and their weights."""
        weights = {each.version: self._rollout.round_weights(each) or {} for each in self._rounds}
        tensors = {
            version: {name: torch.tensor(weight) for name, weight in of_version.items()}
            for version, of_version in weights.items()
        }
        return [
            {"round": [list(each.task_ids), *each[1:]], "weights": tensors[each.version]}
            for each in self._rounds
        ]

    def restore(
        self,
        state: Sequence[dict[str, Any]],
        counters: Counters,
        *,
        known: Callable[[Sequence[str]], bool],
    ) -> None:
        """Restore a checkpoint's rounds: start them again, unless some of their tasks are missing.

        known: whether task ids are all known.
        """
        restored = [restore_round(each) for each in state]
        if not self._config.max_staleness or not all(known(each.task_ids) for each, _ in restored):
            return
        for ahead, (rollout_round, weights) in enumerate(restored):
            self._rounds.append(rollout_round)
            goes_on = counters.updates + ahead < self._config.num_updates
            self._rollout.start_round(rollout_round, weights, now=goes_on)
