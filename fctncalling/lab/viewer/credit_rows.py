"""Credit of an update's tokens, recomputed: by each algorithm, and as the loss took it.

The loss takes an algorithm's estimate as it is, or compared with a group baseline
(--group_baseline), of which the terms are kept for the page's formula.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fctncalling.algorithms.config.running_settings import ALGORITHM_NAMES
from fctncalling.data.token_file import TokenFile
from fctncalling.lab.viewer.token_lanes import EpisodeLanes, bootstrap_values, round_numbers

if TYPE_CHECKING:
    from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories

Settings = Mapping[str, Any]
"""gamma, lam, lam_value, gamma_token, lam_token, group_std, group_credit: a token file's header."""

_SETTINGS = ("gamma", "lam", "lam_value", "gamma_token", "lam_token", "group_std", "group_credit")
_BASELINES = {False: "none", True: "leave_one_out"}  # as former versions wrote them
Terms = list[list[float]]
"""Numbers of a baseline's formula, of each action (see `_terms`)."""


class Credit(NamedTuple):
    """An estimate's numbers of one episode's acted tokens, (N,) each, before whitening."""

    advantages: NDArray[np.float64]
    deltas: NDArray[np.float64]  # one-step temporal differences; GRPO: as the advantages
    targets: NDArray[np.float64]
    terms: Terms  # of the group baseline; empty without one

    def followed_by(self, other: Credit) -> Credit:
        """Return the credit of an episode that another part follows."""
        pairs = zip(self[:3], other[:3], strict=True)
        advantages, deltas, targets = map(np.concatenate, pairs)
        return Credit(advantages, deltas, targets, self.terms + other.terms)


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


class Part(NamedTuple):
    """Trajectory that was learned from: the acted tokens of an episode, or of a role in it."""

    episode: int
    number: int  # in the episode
    places: NDArray[np.int64]  # (N,) in the file's token arrays
    bootstrap: float  # critic's value after the last token, 0 if terminated


def credit_of_lanes(
    name: str,
    tokens: TokenFile,
    lanes: Sequence[EpisodeLanes],
    settings: Settings,
    baseline: str = "none",
) -> list[Credit | None] | None:
    """Return each episode's credit by an algorithm, compared with a group baseline.

    None for one not learned from; in place of all if the algorithm needs a critic and there is
    none.
    """
    from fctncalling.algorithms.config import TrainConfig  # late, as all that brings torch
    from fctncalling.algorithms.group_baseline import GROUP_BASELINES
    from fctncalling.algorithms.ppo import ALGORITHMS

    parts = [
        Part(index, number, lane.acted[part], bootstrap)
        for index, lane in enumerate(lanes)
        if lane.learned
        for number, (part, bootstrap) in enumerate(
            zip(lane.parts, bootstrap_values(tokens, index, lane), strict=True)
        )
    ]
    no_critic = any(
        np.isnan(tokens.values[part.places]).any() or np.isnan(part.bootstrap) for part in parts
    )
    if name != "GRPO" and no_critic:
        return None
    if not parts:
        return [None for _ in lanes]
    known = {key: settings[key] for key in _SETTINGS if key in settings}
    config = TrainConfig(algorithm_name=name, **known)
    one_step = replace(config, lam=0.0, lam_token=0.0, lam_value=None)
    trajectories = _padded(tokens, parts, by_token=config.lam is None)
    estimate = plain = ALGORITHMS[name].estimate(trajectories, config)
    states = [
        [str(each) for each in tokens.episodes[part.episode].get("states", ())] for part in parts
    ]
    terms: list[Terms] = [[] for _ in parts]
    if baseline in GROUP_BASELINES:
        estimate = GROUP_BASELINES[baseline](plain, trajectories, states, config.resolved_gamma)
        terms = _terms(baseline, plain, trajectories, states, config.resolved_gamma)
    deltas = ALGORITHMS[name].estimate(trajectories._replace(lam=None), one_step).advantages
    found: list[Credit | None] = [None] * len(lanes)
    rows = zip(parts, estimate.advantages, deltas, estimate.returns, terms, strict=True)
    for part, *numbers, of_actions in rows:
        own = [row[: len(part.places)].double().numpy() for row in numbers]
        credit, before = Credit(own[0], own[1], own[2], of_actions), found[part.episode]
        found[part.episode] = before.followed_by(credit) if before else credit
    return found


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


def _padded(tokens: TokenFile, parts: Sequence[Part], *, by_token: bool) -> Trajectories:
    """Return the parts as the trainer's own, padded at their ends; by_token: lambda, too."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from fctncalling.algorithms.algorithm import Trajectories

    def rows(field: NDArray[Any]) -> torch.Tensor:
        own = [torch.from_numpy(field[part.places]) for part in parts]
        return pad_sequence(own, batch_first=True)

    keys = [(tokens.episodes[part.episode]["group"], part.number) for part in parts]
    groups = {group: number for number, group in enumerate(set(keys))}
    return Trajectories(
        rewards=rows(tokens.rewards),
        values=rows(tokens.values),
        acted=rows(np.ones(len(tokens.ids), dtype=bool)),
        ends_action=rows(tokens.ends_action),
        bootstrap=torch.tensor([part.bootstrap for part in parts], dtype=torch.float32),
        group=torch.tensor([groups[key] for key in keys]),
        lam=rows(tokens.lam) if by_token else None,
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
