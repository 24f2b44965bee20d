"""UpdateLog: metrics, timings, alarms, episodes and token file of each update."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import PARSE_ERRORS, EpisodeRecord
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.ppo import TokenDiagnostics
from fctncalling.algorithms.run.alarms import Alarm, find_alarms, new_alarms
from fctncalling.algorithms.run.logs import RunLog
from fctncalling.algorithms.run.token_log import TokenLog, TokenTexts, exclusion_reasons
from fctncalling.data.unsafe_text import json_text


def peak_memory_metrics() -> dict[str, float | None]:
    """Return the metrics of peak memory in GB: of this process, and of its CUDA device."""
    import torch

    on_device = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else None
    return {"perf/peak_mem_gb": peak_memory_gb()} | (
        {"perf/peak_cuda_mem_gb": on_device} if on_device else {}
    )


def peak_memory_gb() -> float | None:
    """Return the peak resident memory of this process in GB; None if the system has no figure."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)


logger = logging.getLogger(__name__)
NUM_EXAMPLES = 3
STEP_LIMIT = "step_limit"
Metrics = Mapping[str, float | None]

EXAMPLES: dict[str, Callable[[EpisodeRecord], float]] = {
    "reward_against_success": lambda it: math.exp(it.episode_return) * (not it.success),
    "no_signal": lambda it: float(not it.success),
    "call_syntax": lambda it: sum(error in PARSE_ERRORS for error in it.errors),
    "end_of_turn": lambda it: it.num_actions_truncated,
    "cut_actions": lambda it: it.num_actions_truncated,
    "step_limit": lambda it: float(_hit_a_limit(it)),
}
"""How well an episode shows an alarm; without an entry the longest episodes are taken."""


class AlarmLog:
    """Log of alarms, each raised once.

    `active`: names of what is wrong now.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._history: list[Metrics] | None = None  # None: not yet read from the run's metrics
        self.active: tuple[str, ...] = ()

    def check(self, update: int, metrics: Metrics, episodes: Sequence[EpisodeRecord]) -> bool:
        """Check for alarms after an update that metrics.jsonl already holds.

        Return whether an alarm is new. A run that goes on after a checkpoint forgets the alarms of
        the updates after it.
        """
        if self._history is None:
            lines = _earlier_lines(self._folder / "metrics.jsonl", update)
            # without those of evaluations
            self._history = [line for line in lines if "env/episodes" in line]
            path = self._folder / "alarms.jsonl"
            if path.exists():
                kept = (f"{json_text(line)}\n" for line in _earlier_lines(path, update))
                path.write_text("".join(kept), encoding="utf-8")
        self._history.append({**metrics, **termination_metrics(episodes), "update": update})
        self.active = tuple(find_alarms(self._history))
        raised = [
            dataclasses.replace(alarm, episodes=_examples(alarm, episodes))
            for alarm in new_alarms(self._history)
        ]
        for alarm in raised:
            logger.warning("update %d, alarm %s: %s", update, alarm.name, alarm.message)
        if raised:
            with (self._folder / "alarms.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(f"{json_text(dataclasses.asdict(alarm))}\n" for alarm in raised)
        return bool(raised)


def termination_metrics(episodes: Sequence[EpisodeRecord]) -> dict[str, float | None]:
    """Return termination metrics: how episodes and their actions ended.

    The share of episodes that a limit ended, and the mean probability of the token that ended an
    action, as sampled.
    """
    valid = [episode for episode in episodes if not episode.invalid]
    ends = list[float]()
    for episode in valid:
        cut, number = frozenset(episode.cut_actions), 0
        for row in episode.rows:
            for is_end, logprob in zip(row.ends_action, row.rollout_logprobs, strict=True):
                if is_end and number not in cut and not math.isnan(logprob):
                    ends.append(math.exp(logprob))
                number += is_end
    return {
        "signals/limit_share": fmean(map(_hit_a_limit, valid)) if valid else None,
        "signals/end_of_turn_probability": fmean(ends) if ends else None,
    }


def _hit_a_limit(episode: EpisodeRecord) -> bool:
    return episode.truncated or STEP_LIMIT in episode.errors


def _num_tokens(episode: EpisodeRecord) -> float:
    return sum(len(row.ids) for row in episode.rows)


def _examples(alarm: Alarm, episodes: Sequence[EpisodeRecord]) -> tuple[str, ...]:
    """Return the ids of the update's episodes that show an alarm best."""
    score = EXAMPLES.get(alarm.name, _num_tokens)
    scores = [(score(each), -line) for line, each in enumerate(episodes, 1) if not each.invalid]
    best = sorted((each for each in scores if each[0] > 0), reverse=True)[:NUM_EXAMPLES]
    return tuple(f"train_{alarm.update:06d}:{-line}" for _, line in best)


def _earlier_lines(path: Path, update: int) -> list[Metrics]:
    """Return the lines of the updates before this one, in a file of JSON Lines."""
    lines = list[Metrics]()
    for text in path.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError, KeyError, TypeError):  # half a line of a killed run
            line = json.loads(text)
            if line["update"] < update:
                lines.append(line)
    return lines


class UpdateLog:
    """Log of updates: writes each one's episodes, tokens, metrics and alarms.

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
        """Names of the alarms that are active after the last update."""
        return self._alarms.active

    def make_diagnostics(self, update: int) -> TokenDiagnostics | None:
        """Make the diagnostics of an update's tokens; None if no token file is due."""
        due = self._log.writes and self._is_due(update, self._tokens_interval)
        due = due and not self._config.frozen_roles  # a file holds what whole episodes learned
        return TokenDiagnostics() if due else None

    def write(
        self,
        update: int,
        episodes: Sequence[EpisodeRecord],
        usable: Sequence[EpisodeRecord],  # those learned from
        metrics: Mapping[str, float | None],
        timings: Mapping[str, float | None],
        trace: TokenDiagnostics | None,
    ) -> None:
        """Write the files of an update.

        trace: as `make_diagnostics` returned it, after the update.
        """
        self._log.write_metrics(update, metrics)
        seconds: dict[str, float] = {}
        reasons = exclusion_reasons(episodes, usable, self._config)
        alarmed = self._log.writes and self._alarms.check(update, metrics, episodes)
        if alarmed or trace is not None or self._is_due(update, self._episodes_interval):
            name = f"train_{update:06d}"
            self._log.write_episodes(name, episodes, self._template.spell, reasons)
        if trace is not None:
            started = time.perf_counter()
            self._tokens.write(update, episodes, reasons, trace)
            seconds = {"perf/time_s/token_file": time.perf_counter() - started}
        self._log.write_timings(update, {**timings, **seconds, **peak_memory_metrics()})

    def _is_due(self, update: int, interval: int) -> bool:
        last = update >= self._config.num_updates
        return interval > 0 and (update == 1 or update % interval == 0 or last)
