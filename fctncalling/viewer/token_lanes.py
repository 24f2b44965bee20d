"""Token lanes: ids, mask and numbers of each episode of a token file, as JSON for the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fctncalling.data.token_file import FLOAT_FIELDS, TokenFile
from fctncalling.viewer.credit import ALGORITHM_NAMES, ActedEpisode, Credit, credit_of

DIGITS = 7
"""Significant digits of a number on the page: single precision has no more."""


class EpisodeLanes(NamedTuple):
    """The acted tokens of one episode of a token file."""

    rows: list[slice]
    acted: NDArray[np.int64]  # (N,) places in the file's token arrays
    learned: bool  # numbers of the update exist


def episode_lanes(tokens: TokenFile) -> list[EpisodeLanes]:
    """Return the lanes of each episode of the header."""
    found = []
    for index, episode in enumerate(tokens.episodes):
        rows = tokens.rows(index)
        parts = [row.start + np.flatnonzero(tokens.acted[row]) for row in rows]
        acted = np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)
        known = len(acted) > 0 and not np.isnan(tokens.rewards[acted]).any()
        found.append(EpisodeLanes(rows, acted, bool(episode["learned_from"] and known)))
    return found


def acted_episodes(tokens: TokenFile, lanes: Sequence[EpisodeLanes]) -> list[ActedEpisode]:
    """Return what credit is computed from, of the episodes that were learned from."""
    return [
        ActedEpisode(
            rewards=tokens.rewards[each.acted].astype(np.float64),
            values=tokens.values[each.acted].astype(np.float64),
            ends_action=tokens.ends_action[each.acted],
            bootstrap=last_bootstrap(tokens, index),
            group=tokens.episodes[index]["group"],
        )
        for index, each in enumerate(lanes)
        if each.learned
    ]


def last_bootstrap(tokens: TokenFile, episode: int) -> float:
    """Return the critic's value after an episode's last token; NaN without one."""
    rows = np.flatnonzero(tokens.row_episode == episode)
    return float(tokens.bootstrap[rows[-1]]) if len(rows) else math.nan


def recomputed(
    tokens: TokenFile, lanes: Sequence[EpisodeLanes]
) -> dict[str, list[Credit | None] | None]:
    """Return each algorithm's credit of each episode, None for one not learned from.

    None instead of the list: the algorithm needs a critic, and the run has none.
    """
    episodes = acted_episodes(tokens, lanes)
    found: dict[str, list[Credit | None] | None] = {}
    for name in ALGORITHM_NAMES:
        credits = credit_of(name, episodes, tokens.header)
        if credits is None:
            found[name] = None
            continue
        of_learned = iter(credits)
        found[name] = [next(of_learned) if each.learned else None for each in lanes]
    return found


def lanes_json(
    tokens: TokenFile,
    episode: int,
    lanes: EpisodeLanes,
    credit: dict[str, list[Credit | None] | None],
) -> dict[str, Any]:
    """Return the lanes of an episode: rows of ids, then numbers of its acted tokens in order."""
    acted = lanes.acted
    numbers = {name: getattr(tokens, name)[acted] for name in FLOAT_FIELDS}
    shown = {name: rounded(array) for name, array in numbers.items() if not np.isnan(array).all()}
    own = credit.get(tokens.header["algorithm_name"])
    of_own = own[episode] if own else None
    if of_own is not None:
        shown["delta"] = rounded(of_own.deltas)
    if not np.isnan(numbers["old_logprobs"]).all():
        shown["mismatch"] = rounded(numbers["old_logprobs"] - numbers["rollout_logprobs"])
    return {
        "rows": list(_rows(tokens, lanes)),
        "numbers": shown,
        "ends": np.flatnonzero(tokens.ends_action[acted]).tolist(),
        "in_loss": tokens.in_loss[acted].astype(int).tolist(),
        "clipped": tokens.clipped[acted].tolist(),
        "bootstrap": _number(last_bootstrap(tokens, episode)),
        "credit": {
            name: rounded(of.advantages) if each and (of := each[episode]) else None
            for name, each in credit.items()
        },
    }


def rounded(numbers: Iterable[float]) -> list[float | None]:
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
