"""Actions that are cut before their end: a word where most are, an end where nothing else comes."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord

logger = logging.getLogger(__name__)

WARN_SHARE = 0.5  # the share of actions from which on it is said


class AllCutError(RuntimeError):
    """For several updates every action was cut and nothing could be learned."""


class CutActionMonitor:
    """Looks at the episodes of every update."""

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._warned = False
        self._in_a_row = 0  # updates without an action that came to its end

    def check(self, episodes: Sequence[EpisodeRecord]) -> None:
        """Warn once where most actions were cut; AllCutError after --cut_patience updates of cut
        actions for nothing.

        For nothing: no episode earned more than another. An action for which the context left no
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
