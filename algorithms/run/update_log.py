"""UpdateLog: metrics, timings, alarms, episodes and token file of each update."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.ppo import TokenTrace
from fctncalling.algorithms.run.alarm_log import AlarmLog
from fctncalling.algorithms.run.logs import RunLog
from fctncalling.algorithms.run.peak_memory import peak_memory
from fctncalling.algorithms.run.token_log import TokenLog, reasons_not_learned_from
from fctncalling.algorithms.run.token_texts import TokenTexts


class UpdateLog:
    """Writes what each update leaves behind; an alarm's episodes are written with it.

    `episodes_interval`: updates between two whose episodes are written, the first and the last
    always; 0: none. `tokens_interval`: the same of token files, whose episodes are written too;
    None: as `episodes_interval`.
    """

    def __init__(
        self,
        log: RunLog,
        config: TrainConfig,
        template: ChatTemplate,
        episodes_interval: int,
        tokens_interval: int | None,
    ) -> None:
        self._log = log
        self._config = config
        self._template = template
        self._episodes_interval = episodes_interval
        self._tokens_interval = episodes_interval if tokens_interval is None else tokens_interval
        self._alarms = AlarmLog(log.folder)
        self._tokens = TokenLog(log.folder, config, TokenTexts(template))

    @property
    def active_alarms(self) -> tuple[str, ...]:
        """Names of the alarms that hold after the last update."""
        return self._alarms.active

    def trace(self, update: int) -> TokenTrace | None:
        """Return what takes up the token numbers of an update, None if no token file is due."""
        due = self._log.writes and self._is_due(update, self._tokens_interval)
        due = due and not self._config.frozen_roles  # a file holds what whole episodes learned
        return TokenTrace() if due else None

    def write(
        self,
        update: int,
        episodes: Sequence[EpisodeRecord],
        usable: Sequence[EpisodeRecord],  # those learned from
        metrics: Mapping[str, float | None],
        timings: Mapping[str, float | None],
        trace: TokenTrace | None,
    ) -> None:
        """Write an update's files; `trace`: as `trace` returned it, after the update."""
        self._log.metrics(update, metrics)
        seconds: dict[str, float] = {}
        reasons = reasons_not_learned_from(episodes, usable, self._config)
        alarmed = self._log.writes and self._alarms.check(update, metrics, episodes)
        if alarmed or trace is not None or self._is_due(update, self._episodes_interval):
            name = f"train_{update:06d}"
            self._log.episodes(name, episodes, self._template.spell, reasons)
        if trace is not None:
            started = time.perf_counter()
            self._tokens.write(update, episodes, reasons, trace)
            seconds = {"perf/time_s/token_file": time.perf_counter() - started}
        self._log.timings(update, {**timings, **seconds, **peak_memory()})

    def _is_due(self, update: int, interval: int) -> bool:
        last = update >= self._config.num_updates
        return interval > 0 and (update == 1 or update % interval == 0 or last)
