"""RoundsAhead: the rounds of later updates that are played while this one is learned."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fctncalling.algorithms.config import TrainConfig
from fctncalling.training.counters import Counters
from fctncalling.training.rollouts.rollout_backends import Rollout, RolloutRound
from fctncalling.training.rollouts.round_planner import RoundPlanner, as_tensors, restored_round


class RoundsAhead:
    """Rounds of the next `max_staleness` updates, begun as soon as weights for them exist.

    The round of update k + N is begun with the weights of update k, so a batch is N updates behind,
    whatever the workers' speed; the first N rounds all have the weights of the start.
    """

    def __init__(self, config: TrainConfig, planner: RoundPlanner, rollout: Rollout) -> None:
        self._config = config
        self._planner = planner
        self._rollout = rollout
        self._rounds: deque[RolloutRound] = deque()  # of the next updates, in order

    def first(self, counters: Counters) -> RolloutRound:
        """Return the round of the next update; it stays until `collected`."""
        return self._rounds[0] if self._rounds else self._planner.next_round(counters)

    def collected(self, counters: Counters) -> None:
        """Drop the round that was played for the next update, and begin those after it."""
        if self._rounds:
            self._rounds.popleft()
        while len(self._rounds) < self._config.max_staleness:
            ahead = len(self._rounds) + 1
            self._rounds.append(self._planner.next_round(counters, ahead=ahead))
            # a later command may go on past the end
            goes_on = counters.updates + ahead < self._config.num_updates
            self._rollout.begin(self._rounds[-1], now=goes_on)

    def state(self) -> list[dict[str, Any]]:
        """Return the rounds and the weights they are played with, as a checkpoint holds them."""
        weights = {each.version: self._rollout.weights_of(each) or {} for each in self._rounds}
        tensors = {version: as_tensors(weights[version]) for version in weights}
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
        """Begin a checkpoint's rounds again with their weights, unless tasks of theirs are gone.

        known: whether task ids are all known.
        """
        restored = [restored_round(each) for each in state]
        if not self._config.max_staleness or not all(known(each.task_ids) for each, _ in restored):
            return
        for ahead, (rollout_round, weights) in enumerate(restored):
            self._rounds.append(rollout_round)
            goes_on = counters.updates + ahead < self._config.num_updates
            self._rollout.begin(rollout_round, weights, now=goes_on)
