"""Sampler of starts: behind how much of its task's ground truth an episode begins.

Far from the end next to nothing succeeds, near it nearly all. Starts around the farthest place from
which half of the episodes succeed tell most, and that place moves away from the end as the policy
learns (--starts prefix; Florensa et al., arXiv:1707.05300; Salimans and Chen, arXiv:1812.03381).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, task_outcomes
from fctncalling.algorithms.rollout.collect import SeedStream

StartRecords = dict[int, list[float]]
"""Actions of the truth that are left at a start -> [episodes, successes], both fading with every
update.
"""

FADE = 0.7  # decay of a record per update: estimates cover about the last three updates
MIN_EPISODES = 0.01  # episodes below which a record is dropped
ENOUGH_EPISODES = 2.0  # at a place and next to it, for it to count
WHOLE = 4  # one group of so many begins at its task's beginning
HALF, SOLVED = 0.5, 0.9  # success rates around which, and beyond which no start is drawn
NEAREST = 2  # actions left at a start: the last one often but ends the turn


def knows_starts(config: TrainConfig) -> bool:
    """Whether the policy's credit has a baseline that knows where its episode began.

    To others nearer starts would look like better actions.
    """
    if config.critic == "places":
        return True
    compares = config.algorithm_name == "GRPO" or config.has_own_algorithm
    compares |= config.group_baseline in ("leave_one_out", "state")
    return compares and config.episodes_per_task > 1  # a group shares its start


class StartSampler:
    """Sampler of starts, by success so far; SettingError where no baseline knows them.

    num_actions: task id -> actions of its ground truth, 0 where that proves nothing.
    """

    def __init__(self, config: TrainConfig, num_actions: Callable[[str], int]) -> None:
        if not knows_starts(config):
            raise SettingError(
                f"--starts prefix: {config.algorithm_name} compares episodes that began near the "
                "end with whole ones, since no baseline knows the start; give --critic places, "
                "--group_size 8 with --group_baseline leave_one_out or state, or GRPO"
            )
        self._seed = config.seed
        self._strict = config.reward.startswith("strict")
        self._num_actions = num_actions

    def draw(
        self,
        task_ids: Sequence[str],
        records: Mapping[int, Sequence[float]],
        update: int,
        extra: int,
    ) -> list[int]:
        """Draw a start for each group's task: how many actions of the truth are played."""
        rng = np.random.default_rng([self._seed, SeedStream.STARTS, update, extra])
        whole = rng.permutation(len(task_ids)) % WHOLE == rng.integers(WHOLE)
        starts = []
        for task_id, is_whole in zip(task_ids, whole, strict=True):
            length = self._num_actions(task_id)
            places = start_places(records, length)
            place = int(rng.choice(places)) if places else length  # drawn for whole ones, too
            starts.append(0 if is_whole else length - place)
        return starts

    def record_outcomes(
        self, records: Mapping[int, Sequence[float]], episodes: Sequence[EpisodeRecord]
    ) -> StartRecords:
        """Record the episodes of an update; return the new records."""
        faded = {left: [FADE * number for number in record] for left, record in records.items()}
        kept = {left: record for left, record in faded.items() if record[0] >= MIN_EPISODES}
        for left, success in self._outcomes(episodes):
            record = kept.setdefault(left, [0.0, 0.0])
            record[0] += 1.0
            record[1] += float(success)
        return kept

    def metrics(self, episodes: Sequence[EpisodeRecord]) -> dict[str, float | None]:
        """Return the metrics of an update: success rates by actions left, whole tasks included."""
        outcomes = list(self._outcomes(episodes))
        return {
            f"env/success_by_left/{left}": fmean(won for at, won in outcomes if at == left)
            for left in sorted({left for left, _ in outcomes})
        }

    def _outcomes(self, episodes: Sequence[EpisodeRecord]) -> Iterator[tuple[int, bool]]:
        """Yield (actions left at its start, success) of each valid episode."""
        valid = [each for each in episodes if not each.invalid]
        outcomes = task_outcomes(valid, strict=self._strict)
        for episode, (task_id, success) in zip(valid, outcomes, strict=True):
            if length := self._num_actions(task_id):
                yield length - episode.start, success


def start_places(records: Mapping[int, Sequence[float]], length: int) -> list[int]:
    """Return the actions left of a truth of `length` that a start may be drawn from, whole or not.

    Around the farthest place with half success, but where nearly all succeed; before the first
    record anywhere. A task that is shorter than a place is played whole.
    """
    if not records:
        return list(range(NEAREST, length + 1))
    far = farthest_place(records)
    places = range(max(NEAREST, far // 2), far + far // 2 + 4)
    return [min(at, length) for at in places if at >= length or not _is_solved(records.get(at))]


def farthest_place(records: Mapping[int, Sequence[float]]) -> int:
    """Return the most actions left from where half succeed, as from all known places nearer; or 0.

    A place and its neighbours are judged together, with one episode at even odds.
    """
    farthest = 0
    for left in sorted(records):
        near = [records[at] for at in (left - 1, left, left + 1) if at in records]
        episodes, successes = (sum(numbers) for numbers in zip(*near, strict=True))
        if episodes < ENOUGH_EPISODES:
            continue
        if successes + 0.5 < HALF * (episodes + 1.0):
            break
        farthest = left
    return farthest


def _is_solved(record: Sequence[float] | None) -> bool:
    episodes, successes = record or (0.0, 0.0)
    return successes + 0.5 > SOLVED * (episodes + 1.0)
