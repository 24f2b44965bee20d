"""Adaptive settings: reward scale (--normalize_rewards), entropy coefficient (--entropy_target)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.entropy_control import next_entropy_coef
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.metrics import Metrics
from fctncalling.algorithms.reward_shaping import ReturnStatistics
from fctncalling.training.counters import Counters


def adapted_config(
    config: TrainConfig, counters: Counters, episodes: Sequence[EpisodeRecord]
) -> TrainConfig:
    """Return the config of the next update, which learns from these episodes.

    Their returns go into the counters.
    """
    if config.normalize_rewards:
        statistics = ReturnStatistics(*counters.returns)
        statistics.add([episode.episode_return for episode in episodes])
        counters.returns = list(astuple(statistics))
        config = replace(config, reward_scale=config.reward_scale * statistics.scale)
    if config.entropy_target is not None and counters.entropy_coef is not None:
        config = replace(config, entropy_coef=counters.entropy_coef)
    return config


def update_adaptive_settings(
    config: TrainConfig, counters: Counters, metrics: Mapping[str, float | None]
) -> Metrics:
    """Return metrics of the adaptive settings.

    Store the next update's entropy coefficient in the counters, where the policy was moved in this
    one.
    """
    figures: Metrics = {}
    if config.normalize_rewards:
        figures["charts/reward_scale"] = config.reward_scale
    if config.entropy_target is not None:
        figures["charts/entropy_coef"] = config.entropy_coef
        entropy = metrics.get("losses/entropy")
        if entropy is not None and not metrics.get("update/policy_skipped"):
            counters.entropy_coef = next_entropy_coef(config.entropy_coef, entropy, config)
    return figures
