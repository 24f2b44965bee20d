"""Warnings and notices during a run: updates without a learning signal, curriculum stages."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.learning_signal import no_signal_warning
from fctncalling.algorithms.metrics import Metrics
from fctncalling.algorithms.rollout.task_sampler import TaskSampler

logger = logging.getLogger(__name__)
REPEATED = 10  # of so many updates in a row without a signal one is told


class RunNotices:
    """Notices of a run, each printed once when it becomes true, by the first process."""

    def __init__(self, config: TrainConfig, sampler: TaskSampler, *, shown: bool) -> None:
        self._config = config
        self._sampler = sampler
        self._shown = shown
        self._skipped = 0  # updates in a row that had nothing to learn from
        self._stage = ""

    def no_signal(self, update: int, episodes: Sequence[EpisodeRecord], *, skipped: bool) -> None:
        """Warn of an update without a learning signal: the first in a row, then every tenth."""
        self._skipped = self._skipped + 1 if skipped else 0
        if self._skipped % REPEATED == 1 and self._shown:
            logger.warning("update %d: %s", update + 1, no_signal_warning(episodes, self._config))

    def stage(self, update: int) -> Metrics:
        """Return the curriculum's stage (from 1) as a metric; log the start of a new one."""
        stage = self._sampler.stage(update)
        if stage is None:
            return {}
        number, name = stage
        if name != self._stage and self._shown:
            logger.info("update %d: curriculum stage %d, %s", update + 1, number, name)
        self._stage = name
        return {"charts/curriculum_stage": float(number)}
