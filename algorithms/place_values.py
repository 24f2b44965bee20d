"""Values by place (--critic places): mean return of the run's other episodes from that place.

`info["place"]` says how many calls of the truth are to come and whether the episode is on its path,
so V drops at the very call that was wrong, without a network. An advantage is r + V' - V; where few
successes are known to have passed the next place, its lambda puts the episode's own return in V's
place, or all credit of a first success would go to its last action.
"""

from __future__ import annotations

import itertools
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fctncalling.algorithms.batch import Experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, task_outcomes
from fctncalling.algorithms.values import Values, ValueSource, peer_means, rewards_to_go

FADE = 0.5  # of earlier updates' episodes, an update
PRIOR = 1.0  # successes that weigh as much as the own return
LENT = 3.0  # voices, at most, of episodes that began otherwise
LEAST = 0.2  # voices without which a place is not known

logger = logging.getLogger(__name__)
Cell = tuple[int, int, bool, bool]
"""A place, and whether the truth played the beginning of the episodes that came there."""
Counts = Sequence[float]
"""Of a cell: episodes, the sum of their rewards to go, those of them that succeeded."""
NOBODY: Counts = (0.0, 0.0, 0.0)


class PlaceValues(ValueSource):
    """Value table by place: decayed returns to go, leaving out the episode that is estimated.

    Episodes have one voice at each place. Those that the truth began (`EpisodeRecord.start`) and
    those of the policy alone have cells apart, each with up to `LENT` voices of the other. Where
    nobody else came, or an environment names no places, the value is the baseline that needs none,
    and lambda 1.
    """

    def __init__(self) -> None:
        self._memory: dict[Cell, Counts] = {}
        self._told = False

    def values(self, experience: Experience, of_critic: Values, config: TrainConfig) -> Values:
        """Return V of each token's place, lambda by the successes of the place behind its action.

        A cut episode goes on with the value of the place that it was cut at.
        """
        tokens, voices = experience.tokens, list(_voices(experience, config))
        known = _sums(self._memory, voices)
        value = peer_means(experience, config.resolved_gamma)[1].tolist()
        lam, bootstrap = [1.0] * len(value), [0.0] * len(voices)
        ends = tokens.ends_action.nonzero().squeeze(1).tolist()
        actions = iter(itertools.pairwise([-1, *ends]))
        for episode, (record, own) in enumerate(zip(experience.episodes, voices, strict=True)):
            spans = list(itertools.islice(actions, _num_actions(record)))
            for number, cell in enumerate(_cells(record)):
                count, total, successes = _others(known, own, cell)
                if number and number <= len(spans):
                    lam[spans[number - 1][1]] = PRIOR / (PRIOR + max(0.0, successes))
                if count < LEAST:
                    continue
                if number < len(spans):
                    before, end = spans[number]
                    value[before + 1 : end + 1] = [total / count] * (end - before)
                elif config.truncation_bootstrap and not record.terminated:
                    bootstrap[episode] = total / count
        at_tokens, of_tokens, behind = (
            torch.tensor(each, dtype=tokens.rewards.dtype, device=tokens.rewards.device)
            for each in (value, lam, bootstrap)
        )
        return Values(at_tokens, behind, of_tokens)

    def learn(
        self, experience: Experience, of_critic: Tensor, config: TrainConfig
    ) -> dict[str, float]:
        """Add the episodes' returns to the decayed table; return metrics."""
        voices = list(_voices(experience, config))
        faded = {
            cell: tuple(FADE * each for each in counts)
            for cell, counts in _sums(self._memory, voices).items()
        }
        self._memory = {cell: counts for cell, counts in faded.items() if counts[0] > 1e-3}
        without = sum(not _cells(record) for record in experience.episodes)
        if without and not self._told:
            self._told = True
            logger.warning(
                '--critic places: %d of %d episodes have no info["place"] (their environment or '
                "task knows no calls of a truth) and are credited with their return, less others'",
                *(without, len(experience.episodes)),
            )
        return {
            "critic/placed_share": 1.0 - without / len(experience.episodes),
            "critic/places": float(len(self._memory)),
        }

    def state(self) -> dict[str, Any]:
        """Return the memory, a list of numbers for each cell."""
        cells = [[*map(int, cell), *counts] for cell, counts in self._memory.items()]
        return {"places": cells} if cells else {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Load the memory."""
        self._memory = {
            (int(turn), int(left), bool(on_path), bool(started)): [*map(float, counts)]
            for turn, left, on_path, started, *counts in state["places"]
        }


def _num_actions(record: EpisodeRecord) -> int:
    return sum(sum(row.ends_action) for row in record.rows)


def _cells(record: EpisodeRecord) -> list[Cell]:
    """Return the table cell of each action and of the end; none if any action lacks a place."""
    started = bool(getattr(record, "start", 0))
    named = len(record.places) in (_num_actions(record), _num_actions(record) + 1)
    return [(*place, started) for place in record.places] if named else []


def _voices(experience: Experience, config: TrainConfig) -> Iterator[dict[Cell, Counts]]:
    """Yield the counts of each episode's cells; empty for cut episodes that may go on."""
    outcomes = rewards_to_go(experience, config.resolved_gamma)
    earned = outcomes[experience.tokens.ends_action].tolist()
    strict = config.reward.startswith("strict")
    at = iter(earned)
    for record, (_, solved) in zip(
        experience.episodes, task_outcomes(experience.episodes, strict=strict), strict=True
    ):
        of_actions = list(itertools.islice(at, _num_actions(record)))
        found = defaultdict[Cell, list[float]](list)
        if record.terminated or not config.truncation_bootstrap:
            for cell, value in zip(_cells(record), of_actions, strict=False):
                found[cell].append(value)
        yield {
            cell: (1.0, sum(values) / len(values), float(solved)) for cell, values in found.items()
        }


def _sums(
    memory: Mapping[Cell, Counts], voices: Sequence[Mapping[Cell, Counts]]
) -> dict[Cell, Counts]:
    """Return the counts of memory and voices, added up."""
    sums = defaultdict[Cell, Counts](lambda: NOBODY, memory)
    for own in voices:
        for cell, counts in own.items():
            sums[cell] = _plus(sums[cell], counts)
    return dict(sums)


def _others(known: Mapping[Cell, Counts], own: Mapping[Cell, Counts], cell: Cell) -> Counts:
    """Return the others' counts of a cell, with a share of episodes that began differently."""
    turn, calls_left, on_path, started = cell
    twin = known.get((turn, calls_left, on_path, not started), NOBODY)
    here = _plus(known.get(cell, NOBODY), own.get(cell, NOBODY), -1.0)
    return _plus(here, twin, min(1.0, LENT / max(LENT, twin[0])))


def _plus(one: Counts, other: Counts, times: float = 1.0) -> Counts:
    return tuple(a + times * b for a, b in zip(one, other, strict=True))
