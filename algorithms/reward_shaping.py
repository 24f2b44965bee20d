"""Reward scaling, overlong and KL penalties; logs keep the raw rewards."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from torch import Tensor

from fctncalling.algorithms import losses
from fctncalling.algorithms.batch import Experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord


def shape_rewards(episodes: Sequence[EpisodeRecord], config: TrainConfig) -> list[EpisodeRecord]:
    """Return the episodes with shaped rewards: --overlong penalty, --reward_scale."""
    if config.reward_scale == 1.0 and config.overlong != "penalty":
        return list(episodes)
    return [_shape_episode(episode, config) for episode in episodes]


def learnable_episodes(
    episodes: Sequence[EpisodeRecord], config: TrainConfig
) -> list[EpisodeRecord]:
    """Return the learnable episodes: valid, with actions, not all masked by --overlong."""
    usable = [episode for episode in episodes if not episode.invalid and episode.rows]
    if config.overlong == "mask" and all(is_fully_truncated(episode) for episode in usable):
        return []
    return usable


def overlong_penalty(length: int, *, cut: bool, config: TrainConfig) -> float:
    """Return the penalty for an overlong action of `length` tokens.

    It is --overlong_penalty if the action was cut.

    Over the last --overlong_buffer tokens before the limit it rises linearly from 0 (DAPO,
    arXiv:2503.14476, eq. 13).
    """
    if cut:
        return config.overlong_penalty
    buffer = config.overlong_buffer
    beyond = length - (config.max_new_tokens - buffer)
    return config.overlong_penalty * min(1.0, beyond / buffer) if buffer and beyond > 0 else 0.0


def subtract_kl_penalties(
    experience: Experience, reference_logprobs: Tensor, old_logprobs: Tensor, config: TrainConfig
) -> Experience:
    """Subtract KL penalties from tokens' rewards: --kl_coef times the KL from the reference.

    The estimate adds them up.
    """
    if not config.kl_coef or config.kl_mode != "reward":
        return experience
    penalties = config.kl_coef * losses.kl_k1(reference_logprobs - old_logprobs)
    tokens = experience.tokens
    return experience._replace(tokens=tokens._replace(rewards=tokens.rewards - penalties))


def _shape_episode(episode: EpisodeRecord, config: TrainConfig) -> EpisodeRecord:
    cut, number, rows = frozenset(episode.cut_actions), 0, []
    for row in episode.rows:
        rewards, length = list(row.rewards), 0
        for index, (acted, ends) in enumerate(zip(row.acted, row.ends_action, strict=True)):
            length += acted
            if not ends:
                continue
            if config.overlong == "penalty":
                rewards[index] -= overlong_penalty(length, cut=number in cut, config=config)
            number, length = number + 1, 0
        scaled = [config.reward_scale * reward for reward in rewards]
        rows.append(dataclasses.replace(row, rewards=scaled))
    return dataclasses.replace(episode, rows=rows)


def is_fully_truncated(episode: EpisodeRecord) -> bool:
    """Whether an episode is fully truncated: every action by --max_new_tokens."""
    return len(episode.cut_actions) >= sum(sum(row.ends_action) for row in episode.rows)
