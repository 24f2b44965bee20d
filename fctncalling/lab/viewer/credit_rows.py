"""Token lanes of each episode of a token file, and their credit by each algorithm, as JSON."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fctncalling.algorithms.config.running_settings import ALGORITHM_NAMES
from fctncalling.data.token_file import FLOAT_FIELDS, TokenFile

Record = Mapping[str, Any]
DIGITS = 7
"""Significant digits of a number on the page: single precision has no more."""


class EpisodeLanes(NamedTuple):
    """The acted tokens of one episode of a token file.

    Rows of a team are sorted by role. Time passes between a role's own actions, so each role's
    tokens are a trajectory of their own.
    """

    rows: list[slice]
    acted: NDArray[np.int64]  # (N,) places in the file's token arrays
    learned: bool  # numbers of the update exist
    steps: list[int]  # of each action: the step of the log that it was
    parts: list[slice]  # of the acted tokens: one trajectory, or one a role


def episode_lanes(tokens: TokenFile, records: Sequence[Record] = ()) -> list[EpisodeLanes]:
    """Return the lanes of each episode of the header; `records`: the log's line of each."""
    found = []
    for index, episode in enumerate(tokens.episodes):
        rows = tokens.rows(index)
        parts = [row.start + np.flatnonzero(tokens.acted[row]) for row in rows]
        acted = np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)
        known = len(acted) > 0 and not np.isnan(tokens.rewards[acted]).any()
        steps = (records[index].get("steps") or ()) if records else ()
        ends = np.flatnonzero(tokens.ends_action[acted])
        order, sizes = _by_role([str(step.get("role") or "") for step in steps])
        if len(order) != len(ends):  # another episode's log, or a broken mask: checks tell
            order, sizes = list(range(len(ends))), [len(ends)]
        bounds = [0, *(int(ends[last - 1]) + 1 for last in np.cumsum(sizes[:-1])), len(acted)]
        trajectories = [slice(*pair) for pair in itertools.pairwise(bounds)]
        learned = bool(episode["learned_from"] and known)
        found.append(EpisodeLanes(rows, acted, learned, order, trajectories))
    return found


def _by_role(roles: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the steps sorted by role, in order of who acted first, and how many each role has."""
    places = {role: place for place, role in enumerate(dict.fromkeys(roles))}
    order = sorted(range(len(roles)), key=lambda step: places[roles[step]])
    return order, [roles.count(role) for role in places] or [0]


def bootstrap_values(tokens: TokenFile, episode: int, lanes: EpisodeLanes) -> list[float]:
    """Return the critic's value after the last token of each trajectory; NaN without one.

    Files of older versions hold that of a team's last role alone.
    """
    rows = np.flatnonzero(tokens.row_episode == episode)
    starts = [lanes.acted[part][0] for part in lanes.parts[1:]]
    first = np.searchsorted(tokens.row_offsets, starts, side="right") - 1
    found: list[float] = []
    for own in np.split(rows, np.searchsorted(rows, first)):
        known = tokens.bootstrap[own][np.isfinite(tokens.bootstrap[own])]
        found.append(float(known[-1]) if len(known) else math.nan)
    return [found[-1] if math.isnan(each) else each for each in found]


def lanes_json(tokens: TokenFile, episode: int, lanes: EpisodeLanes) -> dict[str, Any]:
    """Return the lanes of an episode: rows of ids, then numbers of its acted tokens in order."""
    acted = lanes.acted
    numbers = {name: getattr(tokens, name)[acted] for name in FLOAT_FIELDS}
    shown = {
        name: round_numbers(array) for name, array in numbers.items() if not np.isnan(array).all()
    }
    ends = zip(lanes.parts, bootstrap_values(tokens, episode, lanes), strict=True)
    if not np.isnan(numbers["old_logprobs"]).all():
        shown["mismatch"] = round_numbers(numbers["old_logprobs"] - numbers["rollout_logprobs"])
    return {
        "rows": list(_rows(tokens, lanes)),
        "numbers": shown,
        "ends": np.flatnonzero(tokens.ends_action[acted]).tolist(),
        "in_loss": tokens.in_loss[acted].astype(int).tolist(),
        "clipped": tokens.clipped[acted].tolist(),
        "steps": lanes.steps,
        "parts": [{"end": part.stop, "bootstrap": _number(bootstrap)} for part, bootstrap in ends],
    }


def round_numbers(numbers: Iterable[float]) -> list[float | None]:
    """Return numbers with 7 significant digits, None for NaN and infinities."""
    return [_number(float(each)) for each in numbers]


def _number(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def _rows(tokens: TokenFile, lanes: EpisodeLanes) -> Iterable[dict[str, Any]]:
    """Yield each row: its ids, how many the row before begins with, too, and who wrote them.

    `acted`: first and end of each stretch of sampled tokens. `spaces`: tokens with an implied
    space before them.
    """
    before = np.zeros(0, dtype=np.int32)
    for row in lanes.rows:
        ids = tokens.ids[row]
        length = min(len(ids), len(before))
        unequal = np.flatnonzero(ids[:length] != before[:length])
        edges = np.flatnonzero(np.diff(np.concatenate([[0], tokens.acted[row], [0]])))
        yield {
            "ids": ids.tolist(),
            "shared": int(unequal[0]) if len(unequal) else length,
            "acted": edges.tolist(),
            "spaces": np.flatnonzero(tokens.space_before[row]).tolist(),
        }
        before = ids


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
        """The row that the loss took; None if it cannot be recomputed."""
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
    """Return the parts as the trainer's trajectories, end-padded; by_token: lambda, too."""
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
    """Return the credit by each algorithm, and the one that the loss took.

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
    """Return the group baseline; "" if neither the file nor the run's settings name it."""
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
    """Return the JSON of an episode's lanes with its credit and its formula's terms."""
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
