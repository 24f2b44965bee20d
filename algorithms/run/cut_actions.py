"""Monitor of actions cut by token limits: a warning if most are, an error if all are for long."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord

logger = logging.getLogger(__name__)

WARN_SHARE = 0.5  # share of cut actions above which to warn


class AllCutError(RuntimeError):
    """In several updates in a row every action was cut and all returns were equal."""


class CutActionMonitor:
    """Counts the cut actions of every update."""

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._warned = False
        self._in_a_row = 0  # updates without an action that came to its end

    def check(self, episodes: Sequence[EpisodeRecord]) -> None:
        """Warn once if most actions were cut.

        AllCutError after --cut_patience updates without signal.

        Without signal: all actions cut, all returns equal. An action for which the context left no
        room counts as cut.
        """
        valid = [episode for episode in episodes if not episode.invalid]
        cut = sum(episode.num_actions_truncated for episode in valid)
        actions = sum(episode.num_steps for episode in valid)
        if not self._warned and cut > WARN_SHARE * actions:
            self._warned = True
            logger.warning(
                "%d of %d actions were cut before their end: raise --max_new_tokens (now %d) or "
                "--max_episode_tokens "
                "(now %d), or take the --preset of the model's size",
                *(cut, actions, self._config.max_new_tokens, self._config.max_episode_tokens),
            )
        earned = [episode.episode_return for episode in valid]
        in_vain = bool(valid) and cut >= actions and max(earned) == min(earned)
        self._in_a_row = self._in_a_row + 1 if in_vain else 0
        if self._config.cut_patience and self._in_a_row >= self._config.cut_patience:
            raise AllCutError(
                f"in {self._in_a_row} updates in a row no action came to its end (--max_new_tokens "
                f"{self._config.max_new_tokens}, --max_episode_tokens "
                f"{self._config.max_episode_tokens}) and no "
                "episode earned more than another, so nothing is learned. Raise the limits, take "
                "the --preset of the "
                "model's size, or go on all the same with --cut_patience 0"
            )
