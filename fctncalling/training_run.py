"""One training run: where environments, a policy and the learning algorithm meet."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fctncalling.algorithms.batch import EpisodeRecord
from fctncalling.algorithms.checkpoint import load_state, save_checkpoint
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.finite import check_weights
from fctncalling.algorithms.generation import GenerationEngine
from fctncalling.algorithms.grpo import informative
from fctncalling.algorithms.interruption import Interruption
from fctncalling.algorithms.logs import RunLog, episode_metrics, peak_memory
from fctncalling.algorithms.play import TextEnv
from fctncalling.algorithms.policy import ActorCritic
from fctncalling.algorithms.ppo import make_optimisers, update
from fctncalling.algorithms.precision import computing
from fctncalling.algorithms.processes import ALONE, Processes
from fctncalling.algorithms.report import Evaluation
from fctncalling.algorithms.rollout import collect
from fctncalling.algorithms.sharding import load_whole_state, whole_state
from fctncalling.algorithms.task_sampling import Successes, TaskSampler
from fctncalling.algorithms.template import ChatTemplate

EVALUATION_SEED = 20  # all evaluations of all runs draw alike, so that they differ by the policy alone


@dataclass
class Counters:
    """How far a run has come."""

    updates: int = 0
    episodes: int = 0
    env_steps: int = 0
    sampled_tokens: int = 0
    train_cpu_seconds: float = 0.0  # collecting and learning, without evaluation
    extra_rounds: int = 0  # of collecting, beyond one an update
    evaluated_at: int = -1  # the update at which held-out tasks were last played
    before: dict[str, Any] = field(default_factory=dict)  # the evaluation before the first update
    latest: dict[str, Any] = field(default_factory=dict)  # the newest evaluation
    best: dict[str, Any] = field(default_factory=dict)  # the best one after an update: which, and its greedy success
    successes: Successes = field(default_factory=dict)  # what drawing tasks by success goes by


class TrainingRun:
    """Collects, learns, evaluates, logs and saves; the order of it is the caller's.

    All randomness of update k comes from (seed, k), so a resumed run draws what an uninterrupted one would, and several
    processes, which call every method alike, play the episodes that one would.
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        policy: ActorCritic,
        template: ChatTemplate,
        make_env: Callable[[], TextEnv],
        sampler: TaskSampler,
        held_out_ids: Sequence[str],
        log: RunLog,
        log_episodes_interval: int = 10,
        processes: Processes = ALONE,
    ) -> None:
        self.config, self.policy, self.template, self.log = config, policy, template, log
        self.make_env, self.sampler, self.held_out_ids = make_env, sampler, held_out_ids
        self.log_episodes_interval = log_episodes_interval
        self.processes, self.interruption = processes, Interruption(alone=processes.count == 1)
        self.envs = [make_env() for _ in range(-(-config.n_rollout_threads // processes.count))]
        processes.shard(policy)
        self.optimisers = make_optimisers(policy, config)
        self.counters = Counters()
        self._timings: dict[str, float | None] = {}
        self._saved: tuple[int, int] | None = None  # the updates and the evaluation that the newest checkpoint holds

    def collect(self, on_episode: Callable[[EpisodeRecord], None] | None = None) -> list[EpisodeRecord]:
        """Return the episodes of the next update, sampled with the policy as it is."""
        started, cpu = time.perf_counter(), time.process_time()
        with self._actor(self.config.temperature) as actor:
            episodes = self._play_round(actor, 0, on_episode)
            extra = 0
            while extra + 1 < self._most_rounds and len(informative(episodes)) < self.config.episodes_per_update:
                extra += 1
                episodes += self._play_round(actor, extra, on_episode)
        seconds = time.perf_counter() - started
        steps, sampled = sum(episode.num_steps for episode in episodes), self.processes.total(actor.num_sampled_tokens)
        self._timings = {
            "charts/SPS": steps / seconds,
            "perf/rollout_tokens_per_s": sampled / seconds,
            "perf/rollout_forward_tokens_per_s": self.processes.total(actor.num_forward_tokens) / seconds,
            "perf/time_s/rollout": seconds,
        }
        self.counters.extra_rounds += extra  # only now: an interrupted collection is collected again
        self.counters.env_steps += steps
        self.counters.episodes += len(episodes)
        self.counters.sampled_tokens += int(sampled)
        self.counters.train_cpu_seconds += self.processes.total(time.process_time() - cpu)
        return episodes

    def learn(self, episodes: Sequence[EpisodeRecord]) -> dict[str, float | None]:
        """Improve the policy on the episodes, log the update and return its metrics."""
        started, cpu = time.perf_counter(), time.process_time()
        metrics = episode_metrics(episodes)
        usable = [episode for episode in episodes if not episode.invalid and episode.rows]
        if self._most_rounds > 1:
            usable = informative(usable)
        if usable:
            generator = torch.Generator().manual_seed(_seed(self.config.seed, self.counters.updates, 2))
            warming_up = self.counters.updates < self.config.critic_warmup_updates
            optimisers = self.optimisers._replace(policy=None) if warming_up else self.optimisers
            metrics |= update(self.policy, optimisers, usable, self.config, generator, self.processes)
        metrics["charts/learning_rate"] = self.config.lr
        seconds = time.perf_counter() - started
        self.counters.updates += 1
        outcomes = ((episode.task_id, episode.success) for episode in episodes if not episode.invalid)
        self.counters.successes = self.sampler.remember(self.counters.successes, outcomes)
        self.counters.train_cpu_seconds += self.processes.total(time.process_time() - cpu)
        tokens = sum(len(row.ids) for episode in usable for row in episode.rows)
        timings = {"perf/update_tokens_per_s": tokens / seconds, "perf/time_s/update": seconds}
        counters = {"env_steps": self.counters.env_steps, "episodes": self.counters.episodes}
        self.log.metrics(self.counters.updates, {**counters, **metrics})
        self.log.timings(self.counters.updates, {**self._timings, **timings, **peak_memory()})
        if self.log_episodes_interval and self.counters.updates % self.log_episodes_interval == 0:
            self.log.episodes(f"train_{self.counters.updates:06d}", episodes)
        return metrics

    def evaluate(self) -> dict[str, Any]:
        """Play the held-out tasks greedily and sampled, log and return the success rates."""
        number, started = self.counters.updates, time.perf_counter()
        if self.counters.evaluated_at == number:
            return self.counters.latest
        played = []
        for temperature in (0.0, self.config.temperature):
            with self._actor(temperature) as actor:
                played.append(self._play(actor, self.held_out_ids, EVALUATION_SEED))
        evaluation = Evaluation(*played)
        self.log.metrics(number, evaluation.metrics())
        self.log.timings(number, {"perf/time_s/evaluation": time.perf_counter() - started})
        self.log.episodes(f"greedy_{number:06d}", evaluation.greedy)
        self.log.episodes(f"sampled_{number:06d}", evaluation.sampled)
        self.counters.evaluated_at, self.counters.latest = number, evaluation.as_json()
        success = self.counters.latest["greedy"]
        if number == 0:
            self.counters.before = self.counters.latest
        elif success is not None and success > self.counters.best.get("greedy", -1.0):
            self.counters.best = {"update": number, "greedy": success}
        return self.counters.latest

    @property
    def tokens_per_s(self) -> float | None:
        """Sampled tokens a second of the last rollout."""
        return self._timings.get("perf/rollout_tokens_per_s")

    def evaluation_is_due(self) -> bool:
        """Whether the next thing to do is to evaluate, before more is learned."""
        interval = self.config.eval_interval
        number = self.counters.updates
        wanted = number == 0 or self.is_over() or (interval > 0 and number % interval == 0)
        return wanted and self.counters.evaluated_at != number

    def save_is_due(self) -> bool:
        """Whether the run as it stands, evaluated where that was due, is to be kept."""
        number, interval = self.counters.updates, self.config.save_interval
        at_interval = number > 0 and interval > 0 and number % interval == 0
        is_best = interval > 0 and self.counters.best.get("update") == number
        return (at_interval or is_best or self.is_over()) and self._saved != (number, self.counters.evaluated_at)

    def is_over(self) -> bool:
        """Whether there is nothing left to learn."""
        return self.counters.updates >= self.config.num_updates

    def save(self) -> Path:
        """Write a checkpoint of the run as it stands; return its folder. FloatingPointError for a weight of NaN."""
        number, folder = self.counters.updates, self.log.folder / "checkpoints"
        state = {
            "counters": asdict(self.counters),
            "position": self.log.position(),
            "optimisers": {name: whole_state(optimiser) for name, optimiser in self.optimisers._asdict().items()},
        }
        name, is_best = f"update_{number:06d}", self.counters.best.get("update") == number
        with self.processes.whole(self.policy) as policy:
            check_weights(policy)
            if self.processes.is_first:
                tokenizer = self.template.tokenizer
                save_checkpoint(folder, name, policy=policy, tokenizer=tokenizer, state=state, best=is_best)
        self._saved = (number, self.counters.evaluated_at)
        return folder / name

    def restore(self, checkpoint: Path) -> None:
        """Go on from a checkpoint whose weights the policy was loaded with."""
        state = load_state(checkpoint)
        self.counters = Counters(**state["counters"])
        for name, optimiser in self.optimisers._asdict().items():
            load_whole_state(optimiser, state["optimisers"][name])
        self.log.rewind(state["position"], self.counters.updates)
        self._saved = (self.counters.updates, self.counters.evaluated_at)

    def close(self) -> None:
        """Close files and environments."""
        self.log.close()
        for env in self.envs:
            env.close()

    @contextlib.contextmanager
    def _actor(self, temperature: float) -> Iterator[GenerationEngine]:
        """Yield an actor of the policy as it is."""
        with self.processes.whole(self.policy) as policy, computing(self.config, self.processes.device):
            yield GenerationEngine(
                policy.model,
                self.template.stop_ids,
                temperature=temperature,
                max_new_tokens=self.config.max_new_tokens,
                decode=self.template.decode,
            )

    @property
    def _most_rounds(self) -> int:
        """Rounds of collecting that an update may take."""
        return self.config.dynamic_sampling if self.config.algorithm_name == "GRPO" else 1

    def _play_round(
        self, actor: GenerationEngine, extra: int, on_episode: Callable[[EpisodeRecord], None] | None
    ) -> list[EpisodeRecord]:
        """Return the episodes of one round of the update, the first or an extra one."""
        words = (self.config.seed, self.counters.updates, 1, extra)
        return self._play(actor, self._next_tasks(extra), _seed(*(words if extra else words[:3])), on_episode)

    def _play(
        self,
        actor: GenerationEngine,
        task_ids: Sequence[str],
        seed: int,
        on_episode: Callable[[EpisodeRecord], None] | None = None,
    ) -> list[EpisodeRecord]:
        """Return one episode a task, in their order; each process plays its share.

        An interrupt of one process ends the playing of all: this is the one place where a run can be interrupted.
        """
        numbers = range(len(task_ids))[self.processes.rank :: self.processes.count]
        own: list[EpisodeRecord] | None = None
        with contextlib.suppress(KeyboardInterrupt), self.interruption.allowed():
            own = collect(
                self.envs,
                actor,
                self.template,
                [task_ids[number] for number in numbers],
                max_episode_tokens=self.config.max_episode_tokens,
                seed=seed,
                numbers=numbers,
                make_env=self.make_env,
                on_episode=on_episode,
            )
        parts = [part for part in self.processes.gather(own) if part is not None]
        if len(parts) < self.processes.count:
            raise KeyboardInterrupt
        return [parts[number % len(parts)][number // len(parts)] for number in range(len(task_ids))]

    def _next_tasks(self, extra: int = 0) -> list[str]:
        """Return the tasks of the next round; where episodes are compared in groups, --group_size times in a row."""
        size = self.config.group_size if self.config.algorithm_name == "GRPO" else 1
        count = self.config.episodes_per_update // size
        drawn = self.sampler.draw(
            count,
            position=(self.counters.updates + self.counters.extra_rounds + extra) * count,
            update=self.counters.updates,
            successes=self.counters.successes,
        )
        return [task_id for task_id in drawn for _ in range(size)]


def _seed(*words: int) -> int:
    return int(np.random.SeedSequence(words).generate_state(1)[0] & 0x7FFFFFFF)
