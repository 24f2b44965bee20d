"""Advantages of TPPO, POAD, NTPO, APPO and GRPO from stored values, in numpy.

A page compares the five on the same episodes without torch. Formulas are those of
`fctncalling.algorithms.advantages`, `tppo`, `appo` and `grpo`, which the tests hold it to.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Settings = Mapping[str, Any]
"""gamma, lam, lam_value, gamma_token, lam_token, group_std, group_credit: a token file's header."""

ALGORITHM_NAMES = ("TPPO", "POAD", "NTPO", "APPO", "GRPO")
EPSILON = 1e-6  # as algorithms/grpo.py


class ActedEpisode(NamedTuple):
    """The N acted tokens of an episode in order of time."""

    rewards: Floats  # (N,)
    values: Floats  # (N,), NaN without critic
    ends_action: NDArray[np.bool_]  # (N,)
    bootstrap: float  # critic's value after the last token, 0 if terminated
    group: Hashable  # equal for episodes that GRPO compares

    @property
    def action(self) -> NDArray[np.int64]:
        """Index of each token's action, (N,)."""
        before = np.concatenate([[False], self.ends_action[:-1]])
        return np.cumsum(before).astype(np.int64)

    @property
    def begins_action(self) -> NDArray[np.bool_]:
        """Whether a token is the first of its action, (N,)."""
        begins: NDArray[np.bool_] = np.concatenate([[True], self.ends_action[:-1]])
        return begins


class Credit(NamedTuple):
    """An algorithm's numbers of one episode's acted tokens, (N,) each, before whitening."""

    advantages: Floats
    deltas: Floats  # one-step temporal differences; GRPO: as the advantages
    targets: Floats


def credit_of(
    name: str, episodes: Sequence[ActedEpisode], settings: Settings
) -> list[Credit] | None:
    """Return an algorithm's credit of each episode; None if it needs a critic and there is none."""
    if name == "GRPO":
        return _grpo(episodes, settings)
    if any(np.isnan(each.values).any() or np.isnan(each.bootstrap) for each in episodes):
        return None
    return [_critic_credit(name, each, settings) for each in episodes]


def gae(
    episode: ActedEpisode, gamma: float, lam: float, gamma_token: float, lam_token: float
) -> Credit:
    """Return the credit by GAE: gamma and lam where an action ends, *_token inside an action."""
    discounts = np.where(episode.ends_action, gamma, gamma_token)
    traces = np.where(episode.ends_action, gamma * lam, gamma_token * lam_token)
    following = np.append(episode.values[1:], episode.bootstrap)
    deltas = episode.rewards + discounts * following - episode.values
    advantages = np.zeros_like(deltas)
    later = 0.0
    for index in range(len(deltas) - 1, -1, -1):
        later = deltas[index] + traces[index] * later
        advantages[index] = later
    return Credit(advantages, deltas, advantages + episode.values)


def returns_to_go(episode: ActedEpisode, gamma: float) -> Floats:
    """Return the discounted reward to go at every token, (N,)."""
    plain = episode._replace(values=np.zeros_like(episode.rewards), bootstrap=0.0)
    return gae(plain, gamma, 1.0, 1.0, 1.0).targets


def _critic_credit(name: str, episode: ActedEpisode, settings: Settings) -> Credit:
    found = _estimate(name, episode, settings, settings["lam"])
    if settings.get("lam_value") is not None:
        targets = _estimate(name, episode, settings, settings["lam_value"]).targets
        found = found._replace(targets=targets)
    return found


def _estimate(name: str, episode: ActedEpisode, settings: Settings, lam: float) -> Credit:
    gamma = settings["gamma"]
    if name == "APPO":
        return _by_action(episode, gamma, lam)
    inside = {
        "TPPO": (settings["gamma_token"], settings["lam_token"]),
        "POAD": (1.0, lam),
        "NTPO": (gamma, lam),
    }
    return gae(episode, gamma, lam, *inside[name])


def _by_action(episode: ActedEpisode, gamma: float, lam: float) -> Credit:
    """Return APPO's credit: that of a token's action, at each of its tokens."""
    action = episode.action
    if not len(action):
        return Credit(*(np.zeros(0) for _ in range(3)))
    actions = ActedEpisode(
        rewards=np.bincount(action, weights=episode.rewards).astype(np.float64),
        values=episode.values[episode.begins_action],
        ends_action=np.ones(int(action[-1]) + 1, dtype=bool),
        bootstrap=episode.bootstrap,
        group=episode.group,
    )
    return Credit(*(each[action] for each in gae(actions, gamma, lam, 1.0, 1.0)))


def _grpo(episodes: Sequence[ActedEpisode], settings: Settings) -> list[Credit]:
    by_step = settings.get("group_credit") == "step"
    outcomes: dict[tuple[Hashable, int], list[float]] = {}
    returns = [returns_to_go(each, settings["gamma"]) for each in episodes]
    for episode, found in zip(episodes, returns, strict=True):
        starts = np.flatnonzero(episode.begins_action).tolist() if len(found) else []
        for number, start in enumerate(starts if by_step else starts[:1]):
            outcomes.setdefault((episode.group, number), []).append(float(found[start]))
    credits = []
    for episode, found in zip(episodes, returns, strict=True):
        numbers = episode.action if by_step else np.zeros(len(found), dtype=np.int64)
        outcome = found if by_step else np.full(len(found), found[0] if len(found) else 0.0)
        peers = [outcomes[episode.group, int(number)] for number in numbers]
        means = np.array([np.mean(each) for each in peers])
        spreads = np.array([np.std(each) for each in peers])
        divisors = spreads + EPSILON if settings.get("group_std", True) else 1.0
        advantages = np.where(spreads > EPSILON, (outcome - means) / divisors, 0.0)
        credits.append(Credit(advantages, advantages, outcome))
    return credits
