"""Token lanes: ids, mask and numbers of each episode of a token file, as JSON for the page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
