"""Credit of an update's tokens, recomputed: by each algorithm, and as the loss took it.

The loss takes an algorithm's estimate as it is, or compared with a group baseline
(--group_baseline), of which the terms are kept for the page's formula.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fctncalling.algorithms.config.running_settings import ALGORITHM_NAMES
from fctncalling.data.token_file import TokenFile
from fctncalling.lab.viewer.token_lanes import EpisodeLanes, bootstrap_values, round_numbers

if TYPE_CHECKING:
    from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories

Floats = NDArray[np.float32]
Settings = Mapping[str, Any]
"""gamma, lam, lam_value, gamma_token, lam_token, group_std, group_credit: a token file's header."""

_SETTINGS = ("gamma", "lam", "lam_value", "gamma_token", "lam_token", "group_std", "group_credit")
_BASELINES = {False: "none", True: "leave_one_out"}  # as former versions wrote them
Terms = list[list[float]]
"""Numbers of a baseline's formula, of each action (see `_terms`)."""


class ActedEpisode(NamedTuple):
    """The N acted tokens of an episode in order of time."""

    rewards: Floats  # (N,)
    values: Floats  # (N,), NaN without critic
    ends_action: NDArray[np.bool_]  # (N,)
    bootstrap: float  # critic's value after the last token, 0 if terminated
    group: Hashable  # equal for episodes that a baseline compares
    states: Sequence[str] = ()  # of the state before each action, equal for equal ones of a group
    lam: Floats | None = None  # (N,) lambda behind each token; None: the file's one for all


class Credit(NamedTuple):
    """An estimate's numbers of one episode's acted tokens, (N,) each, before whitening."""

    advantages: NDArray[np.float64]
    deltas: NDArray[np.float64]  # one-step temporal differences; GRPO: as the advantages
    targets: NDArray[np.float64]
    terms: Terms  # of the group baseline; empty without one


class CreditRows(NamedTuple):
    """Credit of each episode by algorithm, and as the loss took it.

    None for an episode that was not learned from; instead of the list: the algorithm needs a
    critic, and the run has none.
    """

    rows: dict[str, list[Credit | None] | None]
    own: str  # name of the row that the loss took: the algorithm's or the group baseline's
    unchecked: str  # why that row cannot be recomputed; "" if it can

    @property
    def of_loss(self) -> list[Credit | None] | None:
        """The row that the loss took; None where it cannot be recomputed."""
        return self.rows.get(self.own)


def compute_credit(
    name: str, episodes: Sequence[ActedEpisode], settings: Settings, baseline: str = "none"
) -> list[Credit] | None:
    """Return each episode's credit by an algorithm, compared with a group baseline.

    None if the algorithm needs a critic and there is none.
    """
    from fctncalling.algorithms.config import TrainConfig  # late, as all that brings torch
    from fctncalling.algorithms.group_baseline import GROUP_BASELINES
    from fctncalling.algorithms.ppo import ALGORITHMS

    no_critic = any(np.isnan(each.values).any() or np.isnan(each.bootstrap) for each in episodes)
    if name != "GRPO" and no_critic:
        return None
    if not episodes:
        return []
    known = {key: settings[key] for key in _SETTINGS if key in settings}
    config = TrainConfig(algorithm_name=name, **known)
    one_step = replace(config, lam=0.0, lam_token=0.0, lam_value=None)
    trajectories = _padded(episodes, by_token=config.lam is None)
    estimate = plain = ALGORITHMS[name].estimate(trajectories, config)
    states = [each.states for each in episodes]
    terms: list[Terms] = [[] for _ in episodes]
    if baseline in GROUP_BASELINES:
        estimate = GROUP_BASELINES[baseline](plain, trajectories, states, config.resolved_gamma)
        terms = _terms(baseline, plain, trajectories, states, config.resolved_gamma)
    deltas = ALGORITHMS[name].estimate(trajectories._replace(lam=None), one_step).advantages
    found = zip(estimate.advantages, deltas, estimate.returns, strict=True)
    lengths = [len(each.rewards) for each in episodes]
    numbers = [
        [each[:length].double().numpy() for each in of_episode]
        for of_episode, length in zip(found, lengths, strict=True)
    ]
    return [
        Credit(advantages, one_steps, targets, of_actions)
        for (advantages, one_steps, targets), of_actions in zip(numbers, terms, strict=True)
    ]


def _terms(
    baseline: str,
    plain: AdvantageEstimate,
    trajectories: Trajectories,
    states: Sequence[Sequence[str]],
    gamma: float,
) -> list[Terms]:
    """Return the terms of each episode's actions.

    leave_one_out: the others' mean. state: reward, V(s), how many others were there, V(s'), how
    many.
    """
    from fctncalling.algorithms.group_baseline import leave_one_out_means, state_values

    if baseline == "state":
        found = state_values(trajectories, states, gamma)
        return [[list(map(float, action)) for action in each] for each in found]
    counts = trajectories.begins_action().sum(1).tolist()
    if baseline == "leave_one_out":
        means = leave_one_out_means(plain, trajectories.group).tolist()
        return [[[mean]] * count for mean, count in zip(means, counts, strict=True)]
    return [[] for _ in counts]  # one of a user's own: its numbers, but no formula


def _padded(episodes: Sequence[ActedEpisode], *, by_token: bool) -> Trajectories:
    """Return the episodes as the trainer's own, padded at their ends; by_token: lambda, too."""
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
        bootstrap=torch.tensor([each.bootstrap for each in episodes], dtype=torch.float32),
        group=torch.tensor([groups[each.group] for each in episodes]),
        lam=rows([each.lam for each in episodes if each.lam is not None]) if by_token else None,
    )


def learned_trajectories(tokens: TokenFile, lanes: Sequence[EpisodeLanes]) -> list[ActedEpisode]:
    """Return what credit is computed from: the trajectories that were learned from."""
    return [
        ActedEpisode(
            rewards=tokens.rewards[each.acted[part]],
            values=tokens.values[each.acted[part]],
            lam=tokens.lam[each.acted[part]],
            ends_action=tokens.ends_action[each.acted[part]],
            bootstrap=bootstrap,
            group=(tokens.episodes[index]["group"], number),
            states=[str(state) for state in tokens.episodes[index].get("states", ())],
        )
        for index, each in enumerate(lanes)
        if each.learned
        for number, (part, bootstrap) in enumerate(
            zip(each.parts, bootstrap_values(tokens, index, each), strict=True)
        )
    ]


def credit_of_lanes(
    name: str,
    tokens: TokenFile,
    lanes: Sequence[EpisodeLanes],
    settings: Settings,
    baseline: str = "none",
) -> list[Credit | None] | None:
    """Return each episode's credit, as `compute_credit`; None for one not learned from."""
    credits = compute_credit(name, learned_trajectories(tokens, lanes), settings, baseline)
    if credits is None:
        return None
    of_parts = iter(credits)
    return [
        _joined([next(of_parts) for _ in each.parts]) if each.learned else None for each in lanes
    ]


def _joined(parts: Sequence[Credit]) -> Credit:
    return Credit(
        np.concatenate([part.advantages for part in parts]),
        np.concatenate([part.deltas for part in parts]),
        np.concatenate([part.targets for part in parts]),
        [action for part in parts for action in part.terms],
    )


def credit_rows(
    tokens: TokenFile, lanes: Sequence[EpisodeLanes], config: Mapping[str, Any]
) -> CreditRows:
    """Return the credit by each algorithm, and what the loss took.

    config: the run's; it names the group baseline where a file of version 0.3 does not.
    """
    name = tokens.header["algorithm_name"]
    rows = {each: credit_of_lanes(each, tokens, lanes, tokens.header) for each in ALGORITHM_NAMES}
    if ":" in name:  # module:ALGORITHM; a page runs no code that a file names
        return CreditRows(rows, name, "an algorithm of one's own is not recomputed")
    baseline = _baseline(tokens, config)
    if baseline == "none":
        return CreditRows(rows, name, "")
    if reason := _not_recomputable(tokens, lanes, baseline):
        return CreditRows(rows, baseline, reason)
    own = credit_of_lanes(name, tokens, lanes, tokens.header, baseline)
    return CreditRows({baseline: own, **rows}, baseline, "")


def _baseline(tokens: TokenFile, config: Mapping[str, Any]) -> str:
    """Return the group baseline; "" where neither the file nor the run's settings know."""
    if tokens.header["algorithm_name"] == "GRPO":  # its groups are their own
        return "none"
    unknown = "none" if config else ""  # settings without the flag are older than the flag
    found = tokens.header.get("group_baseline", config.get("group_baseline", unknown))
    return str(_BASELINES[found] if isinstance(found, bool) else found)


def _not_recomputable(tokens: TokenFile, lanes: Sequence[EpisodeLanes], baseline: str) -> str:
    """Return why the credit of the loss cannot be recomputed; "" if it can."""
    from fctncalling.algorithms.group_baseline import GROUP_BASELINES

    if baseline not in GROUP_BASELINES:
        return "neither token file nor config.json names the group baseline, or it is not known"
    pairs = zip(tokens.episodes, lanes, strict=True)
    if baseline == "state" and any(lane.learned and "states" not in each for each, lane in pairs):
        return "credit is matched by state, and this older token file names no states"
    return ""


def with_credit(shown: dict[str, Any], credit: CreditRows, episode: int) -> dict[str, Any]:
    """Return the JSON of an episode's lanes with its credit and what its formula needs."""
    found = {name: each[episode] if each else None for name, each in credit.rows.items()}
    own = found.get(credit.own)
    deltas = {"delta": round_numbers(own.deltas)} if own else {}
    return {
        **shown,
        "numbers": {**shown["numbers"], **deltas},
        "credit": {
            name: round_numbers(each.advantages) if each else None for name, each in found.items()
        },
        "terms": [round_numbers(action) for action in own.terms] if own else [],
    }
