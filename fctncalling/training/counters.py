"""Progress counters of a training run, saved in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.learning_rate import next_entropy_coef
from fctncalling.algorithms.metrics import Metrics
from fctncalling.algorithms.reward_shaping import ReturnStatistics
from fctncalling.algorithms.rollout.task_sampler import Successes


@dataclass
class Counters:
    """Progress counters saved in checkpoints, besides weights and optimisers."""

    updates: int = 0
    episodes: int = 0
    invalid_episodes: int = 0  # of these: infrastructure failed, nothing was learned from them
    env_steps: int = 0
    sampled_tokens: int = 0
    train_cpu_seconds: float = 0.0  # collecting and learning, without evaluation
    extra_rounds: int = 0  # of collecting, beyond one an update
    critic_episodes: int = 0  # of --critic_warmup_episodes, that the critic was fitted to
    evaluated_at: int = -1  # the update at which held-out tasks were last played
    sft_steps: int = 0  # of the supervised stage before all updates
    sft_tokens: int = 0  # that were trained in it, epochs counted
    sft_cpu_seconds: float = 0.0
    base: dict[str, Any] = field(default_factory=dict)  # the evaluation before that stage
    before: dict[str, Any] = field(default_factory=dict)  # the evaluation before the first update
    latest: dict[str, Any] = field(default_factory=dict)  # the newest evaluation
    # The best one after an update: which, and its greedy success (strict where the reward is)
    best: dict[str, Any] = field(default_factory=dict)
    successes: Successes = field(default_factory=dict)  # what drawing tasks by success goes by
    returns: list[float] = field(default_factory=list)  # ReturnStatistics, for --normalize_rewards
    entropy_coef: float | None = None  # that --entropy_target has come to

    @classmethod
    def restored(cls, saved: Any) -> Counters:
        """Return saved counters; ValueError, TypeError if they are none."""
        counters = cls(**saved)
        for each in fields(cls):
            value, default = getattr(counters, each.name), getattr(cls(), each.name)
            kinds = (int, float) if isinstance(default, float) else type(default)
            if default is not None and (
                not isinstance(value, kinds)
                or (isinstance(value, int | float) and not value >= min(0, default))
            ):
                raise ValueError(f"its counters say {each.name} = {value!r}")
        return counters

    def add_evaluation(self, latest: dict[str, Any], *, strict: bool) -> None:
        """Store the evaluation of the current update, and whether it is the first or the best.

        `strict`: compare strict success rates, where the environment has them.
        """
        self.evaluated_at = self.updates
        self.latest = latest
        kind = "greedy_strict" if strict and latest["greedy_strict"] is not None else "greedy"
        success = latest[kind]
        if self.updates == 0:
            self.before = latest
        elif success is not None and success > self.best.get(kind, -1.0):
            self.best = {"update": self.updates, kind: success}


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
