"""Progress counters of a training run, saved in checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from fctncalling.algorithms.rollout.task_sampler import Successes

FORMER_COUNTERS = ("returns", "entropy_coef", "starts")  # in checkpoints of earlier versions


@dataclass
class Counters:
    """Counters of a run's progress, saved in checkpoints."""

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

    @classmethod
    def from_state(cls, saved: Any) -> Counters:
        """Return the counters from a saved state; ValueError, TypeError if it has none."""
        counters = cls(**{name: saved[name] for name in saved if name not in FORMER_COUNTERS})
        for counter in fields(cls):
            value, default = getattr(counters, counter.name), getattr(cls(), counter.name)
            kinds = (int, float) if isinstance(default, float) else type(default)
            if default is not None and (
                not isinstance(value, kinds)
                or (isinstance(value, int | float) and not value >= min(0, default))
            ):
                raise ValueError(f"its counters say {counter.name} = {value!r}")
        return counters

    def add_evaluation(self, latest: dict[str, Any], *, strict: bool) -> None:
        """Record an evaluation of the current update, as the first or the best if it is.

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

    def evaluations(self) -> dict[str, dict[str, Any]]:
        """Return the evaluations by name, each with the "stage" of training whose model it judges.

        "before" and "after" all updates; "base" first, where a supervised stage came before these.
        """
        models = {
            "base": "as loaded, before any training",
            "supervised": f"after {self.sft_steps} supervised steps, before all updates",
            "reinforced": f"after update {self.updates}",
        }

        def judged(stage: str, rates: dict[str, Any]) -> dict[str, Any]:
            return {"stage": stage, "model": models[stage], **rates}

        taught = "supervised" if self.sft_steps else "base"
        return {
            **({"base": judged("base", self.base)} if self.sft_steps else {}),
            "before": judged(taught, self.before),
            "after": judged("reinforced" if self.updates else taught, self.latest),
        }

    def loss_of_best(self) -> tuple[str, float, float] | None:
        """Return (kind, newest, best) of a success rate that fell below half of its best."""
        for kind in self.best.keys() - {"update"}:
            now, best = self.latest.get(kind), self.best[kind]
            if now is not None and now < best / 2:
                return kind.replace("_", " "), now, best
        return None
