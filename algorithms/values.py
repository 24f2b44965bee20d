"""Values of an update's states: their sources, and the lambda of credit past them.

With --lam auto a value is the baseline, plus what a regression knows beyond it, by its weight. All
of it is measured on each update's new episodes, before they are learned from, as sums that decay,
and holds for the updates after it:

- baseline: the mean discounted return of the group's other episodes, else of the batch's, less what
  this episode has earned so far. An episode's own actions to come have no part in it.
- regression: ridge regression of the reward to go, less the baseline, on the critic's value and,
  where the task's truth is known, on the progress along it, all less the others' mean at the start.
  It is solved at once, so it knows after one update what a value head learns in many.
- weight, by turn: the slope of the regression of that reward on the prediction, within [0, 1]. It
  is 0 where nothing is known: TPPO is then REINFORCE with the baseline.
- lambda, by turn: the share of the squared error of the episode's first value that values further
  on leave. A critic that explains which tasks succeed, but no moment within them, has lambda 1;
  credit looks some 1 / (1 - lambda) actions ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fctncalling.algorithms.algorithm import returns_to_go
from fctncalling.algorithms.batch import Experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.progress_features import (
    NUM_PROGRESS_FEATURES,
    token_progress_features,
)

DECAY = 0.8  # of earlier updates' sums, an update
RIDGE = 1.0  # in actions whose feature is 1: with few of them nothing is said
NUM_FEATURES = 1 + NUM_PROGRESS_FEATURES
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
    """Source of values weighted by what is known beyond the baseline, see the module."""

    def __init__(self) -> None:
        # turn, from 1 -> decayed sums, see `_slope_terms` and `_error_terms`
        self._sums: dict[int, list[float]] = {}
        # (F, F + 1) decayed products of the features with each other, and with the outcome
        self._moments = torch.zeros(NUM_FEATURES, NUM_FEATURES + 1, dtype=torch.float64)

    def weight(self, turn: int) -> float:
        """Return the weight of the predictions in a turn."""
        return _share(*self._sums.get(turn, UNKNOWN)[:2], otherwise=0.0)

    def lam(self, turn: int) -> float:
        """Return the lambda of the states in a turn."""
        return _share(*self._sums.get(turn, UNKNOWN)[2:], otherwise=1.0)

    def values(self, experience: Experience, of_critic: Values, config: TrainConfig) -> Values:
        """Return weighted values: the baseline plus weight times the prediction beyond it.

        Behind a cut episode, weight times all of that: the baseline knows no such end.
        """
        turns, rewards = experience.tokens.turn, experience.tokens.rewards
        baseline = expected_rewards_to_go(experience, config.resolved_gamma)
        features, ends = _state_features(experience, of_critic, config)
        slopes = _slopes(self._moments.to(rewards.device))
        weights, last = _by_turn(self.weight, turns), experience.num_acted.cumsum(0) - 1
        behind = baseline[last] - rewards[last] + (ends @ slopes).to(rewards.dtype)
        lam = _by_turn(self.lam, turns.roll(-1))  # a state's lambda stands at the token before it
        return Values(
            at_tokens=baseline + weights * (features @ slopes).to(rewards.dtype),
            bootstrap=torch.where(_is_cut(experience, config), weights[last] * behind, 0.0),
            lam=lam,
        )

    def learn(
        self, experience: Experience, of_critic: Tensor, config: TrainConfig
    ) -> dict[str, float]:
        """Measure predictions of the ended episodes, then learn from these; return metrics.

        Each half of the groups is predicted by what is known from the other half and before.
        """
        tokens, gamma = experience.tokens, config.resolved_gamma
        nothing = tokens.rewards.new_zeros(len(experience.episodes))
        features, _ = _state_features(experience, Values(of_critic, nothing), config)
        outcome = rewards_to_go(experience, gamma) - expected_rewards_to_go(experience, gamma)
        ended = torch.tensor([each.terminated for each in experience.episodes])
        ended = ended.to(features.device)[tokens.episode]
        metrics = self._metrics(tokens.turn)
        metrics["critic/knows_progress"] = float(bool(features[:, 1:].any()))
        before, predicted = self._moments.to(features.device), torch.zeros_like(outcome)
        half = experience.groups[tokens.episode] % 2
        counted = ended & _begins(tokens.action)
        parts = [
            _moments(features[part], outcome[part])
            for part in (counted & (half == 1), counted & (half == 0))
        ]
        for number, other in enumerate(parts):
            known = _slopes(DECAY * before + other)
            predicted = torch.where(half == number, features @ known, predicted)
        self._moments = DECAY * before + sum(parts)
        self._sums = {turn: [DECAY * it for it in sums] for turn, sums in self._sums.items()}
        for place, terms in ((0, self._slope_terms), (2, self._error_terms)):
            self._add(place, ended * terms(experience, predicted, outcome), tokens.turn)
        return metrics

    def _add(self, place: int, terms: Tensor, turns: Tensor) -> None:
        """Add two terms of each token, (2, N), to the sums of its turn, from a place on."""
        for turn in set(turns.tolist()):
            sums = self._sums.setdefault(turn, [*UNKNOWN])
            for number, added in enumerate(terms[:, turns == turn].sum(1).tolist(), place):
                sums[number] += added

    def _slope_terms(self, experience: Experience, predicted: Tensor, outcome: Tensor) -> Tensor:
        """Return product and square of the regression of the outcome on the prediction, (2, N)."""
        return torch.stack([predicted * outcome, predicted.square()])

    def _error_terms(self, experience: Experience, predicted: Tensor, outcome: Tensor) -> Tensor:
        """Return the squared errors of the weighted prediction and of the first, (2, N).

        Where an action begins behind the first.
        """
        tokens, counts = experience.tokens, experience.num_acted
        weighted = _by_turn(self.weight, tokens.turn) * predicted
        at_start = weighted[counts.cumsum(0) - counts][tokens.episode]
        behind = _begins(tokens.action) & ~_begins(tokens.episode)
        errors = torch.stack([outcome - weighted, outcome - at_start])
        return behind * errors.square()

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
        """Return the decayed sums."""
        return {
            "sums": {turn: list(sums) for turn, sums in self._sums.items()},
            "moments": self._moments.tolist(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Load the decayed sums; checkpoints of an earlier version lack the moments."""
        self._sums = {int(turn): [*map(float, sums)] for turn, sums in state["sums"].items()}
        if "moments" in state:
            moments = torch.tensor(state["moments"], dtype=torch.float64)
            self._moments = moments.reshape(NUM_FEATURES, NUM_FEATURES + 1)


def _state_features(
    experience: Experience, of_critic: Values, config: TrainConfig
) -> tuple[Tensor, Tensor]:
    """Return what predicts a state's reward to go, at each token (N, F) and each end (E, F).

    The critic's value, and progress, 0 where it is not to be read or not known; each less the
    others' mean at their start, so that a group's own task tells nothing.
    """
    tokens, episodes = experience.tokens, experience.episodes
    progress = (
        torch.zeros(len(tokens.action), NUM_PROGRESS_FEATURES, device=tokens.action.device),
        torch.zeros(len(episodes), NUM_PROGRESS_FEATURES, device=tokens.action.device),
    )
    if config.critic_sees == "progress":  # None where no truth is known
        progress = token_progress_features(episodes, tokens.action) or progress
    before, behind = (
        torch.cat([value[:, None].double(), known.double()], dim=1)
        for value, known in zip(of_critic[:2], progress, strict=True)
    )
    counts = experience.num_acted
    expected = others_mean(experience, before[counts.cumsum(0) - counts])
    return before - expected[tokens.episode], behind - expected


def _moments(features: Tensor, outcome: Tensor) -> Tensor:
    """Return the products of features (n, F) with each other and the outcome (n,), (F, F + 1)."""
    return features.T @ torch.cat([features, outcome[:, None]], dim=1)


def _slopes(moments: Tensor) -> Tensor:
    """Return the slopes of the ridge regression of the outcome on the features, (F,)."""
    ridge = RIDGE * torch.eye(NUM_FEATURES, dtype=moments.dtype, device=moments.device)
    slopes: Tensor = torch.linalg.solve(moments[:, :-1] + ridge, moments[:, -1])
    return slopes


def expected_rewards_to_go(experience: Experience, gamma: float) -> Tensor:
    """Return the others' mean return, less what the episode has earned before each token, (N,)."""
    tokens, counts = experience.tokens, experience.num_acted
    first = counts.cumsum(0) - counts
    expected = others_mean(experience, rewards_to_go(experience, gamma)[first])
    to_go = rewards_to_go(experience, 1.0)
    return (expected[tokens.episode] - to_go[first][tokens.episode] + to_go).to(
        tokens.rewards.dtype
    )


def others_mean(experience: Experience, quantity: Tensor) -> Tensor:
    """Return the mean of the other episodes' quantity, (E, ...) like it.

    Of the group's others; where there are none, of the batch's; 0 for an episode alone.
    """
    mean = torch.zeros_like(quantity)
    for peers in (torch.zeros_like(experience.groups), experience.groups):
        counts = torch.bincount(peers)[peers].reshape(-1, *[1] * (quantity.dim() - 1))
        sums = torch.zeros_like(quantity).index_add_(0, peers, quantity)[peers]
        mean = torch.where(counts > 1, (sums - quantity) / (counts - 1).clamp(min=1), mean)
    return mean


def rewards_to_go(experience: Experience, gamma: float) -> Tensor:
    """Return the reward to go of each token, (N,) fp64, without a bootstrap value."""
    lines = experience.trajectories(torch.zeros_like(experience.tokens.rewards))
    return returns_to_go(lines, gamma)[lines.acted]


def _is_cut(experience: Experience, config: TrainConfig) -> Tensor:
    """Return which episodes were cut and get a bootstrap value, (E,) bool."""
    cut = [config.truncation_bootstrap and not each.terminated for each in experience.episodes]
    return torch.tensor(cut, device=experience.tokens.rewards.device)


def _begins(span: Tensor) -> Tensor:
    """Return whether a token is the first of its span, (N,) bool; `span` numbers neighbours."""
    return span.diff(prepend=span[:1] - 1) != 0


def _share(part: float, whole: float, *, otherwise: float) -> float:
    """Return a part of the whole, within [0, 1]."""
    return min(1.0, max(0.0, part / whole)) if whole > 0.0 else otherwise


def _by_turn(of_turn: Callable[[int], float], turns: Tensor) -> Tensor:
    """Return a number of each token's turn, (N,) float32."""
    table = [of_turn(turn) for turn in range(int(turns.max()) + 1)]
    return torch.tensor(table, device=turns.device)[turns]
