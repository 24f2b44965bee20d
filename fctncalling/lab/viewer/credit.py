"""Advantages of TPPO, POAD, NTPO, APPO and GRPO from stored values, by the trainer's formulas."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Settings = Mapping[str, Any]
"""gamma, lam, lam_value, gamma_token, lam_token, group_std, group_credit: a token file's header."""

_SETTINGS = ("gamma", "lam", "lam_value", "gamma_token", "lam_token", "group_std", "group_credit")


class ActedEpisode(NamedTuple):
    """The N acted tokens of an episode in order of time."""

    rewards: Floats  # (N,)
    values: Floats  # (N,), NaN without critic
    ends_action: NDArray[np.bool_]  # (N,)
    bootstrap: float  # critic's value after the last token, 0 if terminated
    group: Hashable  # equal for episodes that GRPO compares


class Credit(NamedTuple):
    """An algorithm's numbers of one episode's acted tokens, (N,) each, before whitening."""

    advantages: Floats
    deltas: Floats  # one-step temporal differences; GRPO: as the advantages
    targets: Floats


def compute_credit(
    name: str, episodes: Sequence[ActedEpisode], settings: Settings
) -> list[Credit] | None:
    """Return an algorithm's credit of each episode; None if it needs a critic and there is none."""
    from fctncalling.algorithms.config import TrainConfig  # late, as all that brings torch
    from fctncalling.algorithms.ppo import ALGORITHMS

    no_critic = any(np.isnan(each.values).any() or np.isnan(each.bootstrap) for each in episodes)
    if name != "GRPO" and no_critic:
        return None
    if not episodes:
        return []
    known = {key: settings[key] for key in _SETTINGS if key in settings}
    config = TrainConfig(algorithm_name=name, **known)
    one_step = replace(config, lam=0.0, lam_token=0.0, lam_value=None)
    trajectories = _padded(episodes)
    estimate = ALGORITHMS[name].estimate
    advantages, targets, _ = estimate(trajectories, config)
    found = zip(advantages, estimate(trajectories, one_step).advantages, targets, strict=True)
    lengths = [len(each.rewards) for each in episodes]
    return [
        Credit(*(each[:length].double().numpy() for each in of_episode))
        for of_episode, length in zip(found, lengths, strict=True)
    ]


def _padded(episodes: Sequence[ActedEpisode]) -> Any:
    """Return the episodes as the trainer's `Trajectories`, padded at their ends."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from fctncalling.algorithms.algorithm import Trajectories

    def rows(arrays: Sequence[NDArray[Any]]) -> torch.Tensor:
        return pad_sequence([torch.from_numpy(np.array(each)) for each in arrays], batch_first=True)

    groups = {group: number for number, group in enumerate({each.group for each in episodes})}
    return Trajectories(
        rewards=rows([each.rewards for each in episodes]),
        values=rows([each.values for each in episodes]),
        acted=rows([np.ones(len(each.rewards), dtype=bool) for each in episodes]),
        ends_action=rows([each.ends_action for each in episodes]),
        bootstrap=torch.tensor([each.bootstrap for each in episodes], dtype=torch.float64),
        group=torch.tensor([groups[each.group] for each in episodes]),
    )
