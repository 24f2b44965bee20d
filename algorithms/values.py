"""Values of an update's states: their sources, and the lambda of credit past them.

With --lam auto the critic's values enter by what they know. That is measured by turn on each
update's new episodes, before they are learned from, as sums that decay, and holds for the updates
after it:

- baseline: the mean discounted return of the group's other episodes, else of the batch's, less what
  this episode has earned so far. An episode's own actions to come have no part in it.
- weight: the slope of the regression of the reward to go on the critic's value, both less their
  means over the same turn of the others, within [0, 1]. It is 0 where the critic knows nothing that
  these means do not: TPPO is then REINFORCE with the baseline.
- lambda: the share of the squared error of the episode's first value that values further on leave.
  A critic that explains which tasks succeed, but no moment within them, has lambda 1; credit looks
  some 1 / (1 - lambda) actions ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fctncalling.algorithms.algorithm import returns_to_go
from fctncalling.algorithms.batch import Experience
from fctncalling.algorithms.config import TrainConfig

DECAY = 0.8  # of earlier updates' sums, an update
UNKNOWN = [0.0] * 4


class Values(NamedTuple):
    """Values of an update's states, and lambda."""

    at_tokens: Tensor  # (N,) of the state before each acted token
    bootstrap: Tensor  # (E,) behind the last token of each episode; 0 where it terminated
    lam: Tensor | None = None  # (N,) lambda from a token's action to the next; None: --lam


class ValueSource:
    """Source of the values of the advantage estimate: here the critic's, unchanged."""

    def values(self, experience: Experience, of_critic: Values, config: TrainConfig) -> Values:
        """Return the values of an update's states, from knowledge before the update.

        of_critic: the critic's own, before the update. Called twice, it returns the same.
        """
        return of_critic

    def learn(
        self, experience: Experience, of_critic: Tensor, config: TrainConfig
    ) -> dict[str, float]:
        """Learn from the update's episodes for the updates after it; return metrics of this one.

        of_critic: (N,), the critic's values before the update.
        """
        return {}

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint; {} if there is none."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Load a state of `state`; KeyError, TypeError or ValueError if it does not fit."""


class WeightedValues(ValueSource):
    """Source of values weighted by the critic's measured knowledge, see the module."""

    def __init__(self) -> None:
        # turn, from 1 -> decayed sums, see `_terms`
        self._sums: dict[int, list[float]] = {}

    def weight(self, turn: int) -> float:
        """Return the weight of the critic's values in a turn."""
        return _share(*self._sums.get(turn, UNKNOWN)[:2], otherwise=0.0)

    def lam(self, turn: int) -> float:
        """Return the lambda of the states in a turn."""
        return _share(*self._sums.get(turn, UNKNOWN)[2:], otherwise=1.0)

    def values(self, experience: Experience, of_critic: Values, config: TrainConfig) -> Values:
        """Return weighted values: the baseline plus weight times the critic's difference from it.

        Behind a cut episode the critic's part stands alone: the baseline knows no such end.
        """
        turns = experience.tokens.turn
        weights = _by_turn(self.weight, turns)
        baseline = expected_rewards_to_go(experience, config.resolved_gamma)
        beyond = of_critic.at_tokens - peer_means_of(experience, of_critic.at_tokens)[1]
        lam = _by_turn(self.lam, turns.roll(-1))  # a state's lambda stands at the token before it
        return Values(
            at_tokens=baseline + weights * beyond,
            bootstrap=weights[experience.num_acted.cumsum(0) - 1] * of_critic.bootstrap,
            lam=lam,
        )

    def learn(
        self, experience: Experience, of_critic: Tensor, config: TrainConfig
    ) -> dict[str, float]:
        """Measure the critic's error on ended episodes; return weights and lambdas as metrics."""
        turns = experience.tokens.turn
        terms = self._terms(experience, of_critic, config.resolved_gamma)
        metrics = self._metrics(turns)
        for turn in {*turns.tolist(), *self._sums}:
            new, old = terms[:, turns == turn].sum(1).tolist(), self._sums.get(turn, UNKNOWN)
            self._sums[turn] = [DECAY * a + b for a, b in zip(old, new, strict=True)]
        return metrics

    def _terms(self, experience: Experience, of_critic: Tensor, gamma: float) -> Tensor:
        """Return each token's addends to the sums, (4, N) float64; 0 for cut episodes.

        Product and square of the regression of the return on the critic's value, both less the
        means; where an action begins behind the first, the squared errors of the weighed value
        there, and of the episode's first.
        """
        tokens, turns = experience.tokens, experience.tokens.turn
        value = (of_critic - peer_means_of(experience, of_critic)[1]).double()
        outcome = rewards_to_go(experience, gamma) - peer_means(experience, gamma)[1].double()
        weighted = _by_turn(self.weight, turns) * value
        counts = experience.num_acted
        starts = weighted[counts.cumsum(0) - counts][tokens.episode]  # of the episode's first token
        ended = torch.tensor([each.terminated for each in experience.episodes])
        measured = ended.to(value.device)[tokens.episode]
        behind = measured & (tokens.action.diff(prepend=tokens.action[:1]) > 0)
        behind &= tokens.episode.diff(prepend=tokens.episode[:1]) == 0
        return torch.stack(
            [
                measured * value * outcome,
                measured * value.square(),
                behind * (outcome - weighted).square(),
                behind * (outcome - starts).square(),
            ]
        )

    def _metrics(self, turns: Tensor) -> dict[str, float]:
        found, metrics = sorted(set(turns.tolist())), dict[str, float]()
        shares = {"weight": self.weight, "lambda": self.lam}
        for each, of_turn in shares.items():
            name = f"critic/{each}"
            metrics[name] = float(_by_turn(of_turn, turns).mean())
            if len(found) > 1:
                metrics |= {f"{name}/turn_{turn}": of_turn(turn) for turn in found}
        return metrics

    def state(self) -> dict[str, Any]:
        """Return the decayed sums by turn."""
        return {"sums": {turn: list(sums) for turn, sums in self._sums.items()}}

    def load_state(self, state: dict[str, Any]) -> None:
        """Load the decayed sums by turn."""
        self._sums = {int(turn): [*map(float, sums)] for turn, sums in state["sums"].items()}


def peer_means(experience: Experience, gamma: float) -> tuple[Tensor, Tensor]:
    """Return the others' mean reward to go from each token's turn on, see `peer_means_of`."""
    return peer_means_of(experience, rewards_to_go(experience, gamma))


def expected_rewards_to_go(experience: Experience, gamma: float) -> Tensor:
    """Return the others' mean return, less what the episode has earned before each token, (N,)."""
    tokens = experience.tokens
    as_one_turn = tokens._replace(turn=torch.zeros_like(tokens.turn))
    mean_return = peer_means(experience._replace(tokens=as_one_turn), gamma)[1]
    to_go, counts = rewards_to_go(experience, 1.0), experience.num_acted
    earned = to_go[counts.cumsum(0) - counts][tokens.episode] - to_go
    return mean_return - earned.to(mean_return.dtype)


def peer_means_of(experience: Experience, quantity: Tensor) -> tuple[Tensor, Tensor]:
    """Return the others' means of a quantity (N,) in each token's turn, twice (N,).

    Of the batch's other episodes, and of the group's, each at its first token in that turn; where
    none of the group came to it, the batch's; 0 where nobody did.
    """
    tokens, turns = experience.tokens, experience.tokens.turn
    most = int(turns.max()) + 1
    keys, visit = torch.unique(tokens.episode * most + turns, return_inverse=True)
    first = torch.full_like(keys, len(visit))
    first.scatter_reduce_(0, visit, torch.arange(len(visit), device=visit.device), "amin")
    own, turn = quantity.double()[first], turns[first]
    found = [torch.zeros_like(own)]
    for peers in (turn, experience.groups[tokens.episode[first]] * most + turn):
        of_peers = torch.unique(peers, return_inverse=True)[1]
        sums, counts = (
            torch.zeros_like(own).index_add_(0, of_peers, each)[of_peers]
            for each in (own, torch.ones_like(own))
        )
        others = (sums - own) / (counts - 1.0).clamp(min=1.0)
        found.append(torch.where(counts > 1, others, found[-1]))
    of_batch, of_group = (each[visit].to(tokens.rewards.dtype) for each in found[1:])
    return of_batch, of_group


def rewards_to_go(experience: Experience, gamma: float) -> Tensor:
    """Return the reward to go of each token, (N,) fp64, without a bootstrap value."""
    lines = experience.trajectories(torch.zeros_like(experience.tokens.rewards))
    return returns_to_go(lines, gamma)[lines.acted]


def _share(part: float, whole: float, *, otherwise: float) -> float:
    """Return a part of the whole, within [0, 1]."""
    return min(1.0, max(0.0, part / whole)) if whole > 0.0 else otherwise


def _by_turn(of_turn: Callable[[int], float], turns: Tensor) -> Tensor:
    """Return a number of each token's turn, (N,) float32."""
    table = [of_turn(turn) for turn in range(int(turns.max()) + 1)]
    return torch.tensor(table, device=turns.device)[turns]
