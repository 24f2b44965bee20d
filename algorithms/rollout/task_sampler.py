"""Sampler of the tasks that an update plays.

Evenly by default, or by category weights, by success so far and in stages.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.rollout.collect import SeedStream

Successes = dict[str, list[float]]
"""Task id -> [episodes, successes], both fading with every update. JSON-shaped: it lies in the
checkpoint.
"""

FADE = 0.9  # decay of a record per update: estimates cover about the last ten updates
PRIOR_EPISODES = 2.0  # pseudo-episodes at its category's success rate that a task starts with
MIN_WEIGHT = 0.05  # of a task that always or never succeeds: it stays in play, should that change
MIN_EPISODES = 0.01  # episodes below which a record is dropped
_DIFFICULTY = re.compile(r"0\.\d+|1\.0*")


class CandidateTask(NamedTuple):
    """Candidate task for sampling: id, category and length."""

    id: str
    category: str = ""
    num_turns: int = 1
    difficulty: float | None = None  # 0 to 1, as the task says; None where it says nothing


class CurriculumStage(NamedTuple):
    """Stage of the curriculum: which tasks to sample, for how many updates."""

    name: str  # as it was written
    categories: frozenset[str]
    max_turns: int | None  # tasks of at most so many turns, in place of categories
    num_updates: int
    max_difficulty: float | None = None  # tasks of at most this difficulty, in place of categories

    def admits(self, candidate: CandidateTask) -> bool:
        """Whether this stage admits the task."""
        if self.max_difficulty is not None:
            return candidate.difficulty is not None and candidate.difficulty <= self.max_difficulty
        if self.max_turns is not None:
            return candidate.num_turns <= self.max_turns
        return candidate.category in self.categories


class TaskSampler:
    """Sampler of a run's tasks, by mixture, curriculum or past success.

    SettingError where --mixture or --curriculum does not fit the tasks.
    """

    def __init__(self, candidates: Sequence[CandidateTask], config: TrainConfig) -> None:
        self.candidates = candidates
        self._seed = config.seed
        self._mixture = parse_mixture(config.mixture) if config.mixture else {}
        self._stages = parse_curriculum(config.curriculum) if config.curriculum else []
        self._by_success = config.task_sampling == "success"
        self._weighted = bool(self._mixture or self._stages or self._by_success)
        names = sorted({candidate.category for candidate in candidates})
        self._known = ", ".join(filter(None, names)) or "none, for these tasks have no categories"
        self._category = np.array([names.index(candidate.category) for candidate in candidates])
        self._band = difficulty_bands(candidates)
        self._shares = np.array(
            [self._mixture.get(name, 0.0 if self._mixture else 1.0) for name in names]
        )
        self._check(names)
        self._admitted = [np.array([stage.admits(c) for c in candidates]) for stage in self._stages]
        for stage, admitted in zip(self._stages, self._admitted, strict=True):
            if not (admitted & (self._shares[self._category] > 0)).any():
                also = f" that --mixture {config.mixture} leaves in" if self._mixture else ""
                raise SettingError(
                    f'--curriculum: stage "{stage.name}" admits no task{also}; known: {self._known}'
                )

    def has_tasks(self, task_ids: Sequence[str]) -> bool:
        """Whether the sampler has all these tasks among its candidates."""
        return set(task_ids) <= {candidate.id for candidate in self.candidates}

    def draw(
        self, count: int, *, position: int, update: int, successes: Mapping[str, Sequence[float]]
    ) -> list[str]:
        """Draw the ids of a run's next tasks, `position` tasks into it, for an update."""
        if not self._weighted:
            return [self.candidates[index].id for index in self._evenly(count, position)]
        rng = np.random.default_rng([self._seed, SeedStream.TASK_DRAWS, position])
        order = rng.permutation(len(self.candidates))
        order = order[np.argsort(self._category[order], kind="stable")]  # by category
        bounds = np.cumsum(self._weights(update, successes)[order])
        points = (rng.random() + np.arange(count)) / count * bounds[-1]
        within = np.minimum(points, np.nextafter(bounds[-1], 0.0))
        drawn = rng.permutation(order[np.searchsorted(bounds, within, side="right")])
        return [self.candidates[index].id for index in drawn]

    def record_outcomes(
        self, successes: Successes, outcomes: Iterable[tuple[str, bool]]
    ) -> Successes:
        """Record outcomes, (task id, success) of an update; return the new success records.

        Empty unless --task_sampling success.
        """
        if not self._by_success:
            return {}
        faded = {task: [FADE * number for number in record] for task, record in successes.items()}
        kept = {task: record for task, record in faded.items() if record[0] >= MIN_EPISODES}
        for task, success in outcomes:
            record = kept.setdefault(task, [0.0, 0.0])
            record[0] += 1.0
            record[1] += float(success)
        return kept

    def curriculum_stage(self, update: int) -> tuple[int, str] | None:
        """Return the curriculum stage of an update: its number, from 1, and its name.

        None without a curriculum.
        """
        if not self._stages:
            return None
        for number, stage in enumerate(self._stages, 1):
            if update < stage.num_updates:
                return number, stage.name
            update -= stage.num_updates
        return len(self._stages) + 1, "all tasks"

    def _evenly(self, count: int, position: int) -> list[int]:
        """Return task indices from shuffled epochs: each task once before any comes again."""
        number = len(self.candidates)
        epochs = {place // number for place in range(position, position + count)}
        orders = {
            epoch: np.random.default_rng([self._seed, SeedStream.TASK_EPOCHS, epoch]).permutation(
                number
            )
            for epoch in epochs
        }
        return [
            int(orders[place // number][place % number])
            for place in range(position, position + count)
        ]

    def _weights(
        self, update: int, successes: Mapping[str, Sequence[float]]
    ) -> NDArray[np.float64]:
        """Return a weight for each task; only their proportions matter."""
        weights = (
            self._uncertainty(successes) if self._by_success else np.ones(len(self.candidates))
        )
        weights = weights * self._in_stage(update)
        if not self._mixture:
            return weights
        totals = np.bincount(self._category, weights, minlength=len(self._shares))
        scale = np.divide(self._shares, totals, out=np.zeros_like(totals), where=totals > 0)
        mixed: NDArray[np.float64] = weights * scale[self._category]
        return mixed

    def _in_stage(self, update: int) -> NDArray[np.bool_]:
        """Return a mask of the tasks in this update's stage; all tasks after the last stage."""
        for stage, admitted in zip(self._stages, self._admitted, strict=True):
            if update < stage.num_updates:
                return admitted
            update -= stage.num_updates
        return np.ones(len(self.candidates), dtype=bool)

    def _uncertainty(self, successes: Mapping[str, Sequence[float]]) -> NDArray[np.float64]:
        """Return 4 p (1 - p) of each task's estimated success rate p.

        1 at one half, small near 0 and 1.
        """
        nothing = (0.0, 0.0)
        played, solved = np.array(
            [successes.get(candidate.id, nothing) for candidate in self.candidates]
        ).T
        of_category = [np.bincount(self._category, numbers) for numbers in (played, solved)]
        rate = (of_category[1] + 1.0) / (of_category[0] + 2.0)  # one half where nothing was played
        expected = rate[self._category]
        if self._band is not None:
            of_band = [np.bincount(self._band, numbers)[self._band] for numbers in (played, solved)]
            expected = (of_band[1] + PRIOR_EPISODES * expected) / (of_band[0] + PRIOR_EPISODES)
        chance = (solved + PRIOR_EPISODES * expected) / (played + PRIOR_EPISODES)
        uncertainty: NDArray[np.float64] = np.maximum(4.0 * chance * (1.0 - chance), MIN_WEIGHT)
        return uncertainty

    def _check(self, names: Sequence[str]) -> None:
        """Raise SettingError where a flag names a category that no task has."""
        named = {
            "--mixture": set(self._mixture),
            "--curriculum": {n for s in self._stages for n in s.categories},
        }
        for flag, categories in named.items():
            if unknown := sorted(categories - set(names)):
                near = difflib.get_close_matches(unknown[0], names, n=1)
                hint = f"is {near[0]} meant? Known" if near else "known"
                raise SettingError(
                    f'{flag}: got "{unknown[0]}", of which there is no task; {hint}: {self._known}'
                )


def difficulty_bands(candidates: Sequence[CandidateTask]) -> NDArray[np.int64] | None:
    """Return the difficulty band of each task: same category, same tenth of difficulty.

    None where no task says how difficult it is. A task that was not played yet is expected to
    succeed as often as those of its band.
    """
    if all(candidate.difficulty is None for candidate in candidates):
        return None
    keys = [
        (each.category, -1 if each.difficulty is None else int(each.difficulty * 10))
        for each in candidates
    ]
    numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([numbers[key] for key in keys], dtype=np.int64)


def parse_mixture(text: str) -> dict[str, float]:
    """Parse a mixture such as "multi_turn_base=2,simple_python=1" to category -> weight.

    SettingError naming the flaw.
    """
    weights: dict[str, float] = {}
    for part in text.split(","):
        category, _, weight = part.strip().partition("=")
        if not category or not _is_weight(weight) or category in weights:
            raise SettingError(
                f'--mixture: got "{part}" in "{text}", expected CATEGORY=WEIGHT, each category '
                "once, its weight above 0; such as multi_turn_base=2,simple_python=1"
            )
        weights[category] = float(weight)
    return weights


def parse_curriculum(text: str) -> list[CurriculumStage]:
    """Parse a curriculum such as "simple_python+multiple:10,2:20" to its stages.

    SettingError naming the flaw.
    """
    stages = []
    for part in text.split(","):
        whom, _, updates = part.strip().partition(":")
        names = whom.split("+")
        turns = int(whom) if whom.isdecimal() else None
        difficulty = float(whom) if _DIFFICULTY.fullmatch(whom) else None
        if not all(names) or not updates.isdecimal() or int(updates) < 1 or turns == 0:
            raise SettingError(
                f'--curriculum: got "{part}" in "{text}", expected WHICH:UPDATES, where WHICH is '
                "categories joined by +, the most turns a task may have, or with a point the "
                "greatest difficulty; such as simple_python+multiple:10,2:20,0.4:20"
            )
        by_category = turns is None and difficulty is None
        categories = frozenset(names if by_category else ())
        stages.append(CurriculumStage(whom, categories, turns, int(updates), difficulty))
    return stages


def _is_weight(text: str) -> bool:
    try:
        return 0.0 < float(text) < float("inf")
    except ValueError:
        return False
