"""One training run: collect, learn, evaluate, log and checkpoint."""

from __future__ import annotations

import logging
import shlex
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.fsdp import full_state_dict, load_full_state_dict
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord, episode_metrics, task_outcomes
from fctncalling.algorithms.learning_signal import (
    groups_with_signal,
    learnable_episodes,
    no_signal_warning,
)
from fctncalling.algorithms.nan_guard import check_weights
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.ppo import (
    learning_rates,
    make_optimisers,
    set_learning_rates,
    update,
)
from fctncalling.algorithms.rollout.collect import SeedStream, derive_seed
from fctncalling.algorithms.rollout.roles import add_critic_rows, split_by_role
from fctncalling.algorithms.rollout.task_sampler import TaskSampler
from fctncalling.algorithms.run.checkpoint import load_state, save_checkpoint
from fctncalling.algorithms.run.evaluation import Evaluation
from fctncalling.algorithms.run.interruption import Interruption
from fctncalling.algorithms.run.logs import RunLog
from fctncalling.algorithms.run.update_log import UpdateLog
from fctncalling.algorithms.supervised import SupervisedLearner
from fctncalling.algorithms.supervised.critic_fit import (
    CriticSamples,
    critic_samples,
    fit_critic,
)
from fctncalling.algorithms.targets import make_value_source
from fctncalling.evaluation.pass_at_k import evaluation_uncertainty
from fctncalling.training.announce import shell_command
from fctncalling.training.counters import Counters
from fctncalling.training.resume import restore_supervised_learner, unfit_checkpoint_error
from fctncalling.training.rollouts.rollout_backends import (
    OnEpisode,
    Rollout,
    RolloutResult,
    RolloutRound,
    rollout_timings,
)
from fctncalling.training.rollouts.round_planner import (
    PrefetchedRounds,
    RoundPlanner,
    evaluation_rounds,
)

logger = logging.getLogger(__name__)
WARN_EVERY_SKIPPED = 10  # updates in a row without a learning signal


class TrainingRun:
    """Training run with environments, policy and learner; the caller sets the order of steps.

    All randomness of update k comes from (seed, k), so a resumed run draws what an uninterrupted
    one would, and several processes, which call every method alike, play the episodes that one
    would.
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        policy: ActorCritic,
        template: ChatTemplate,
        rollout: Rollout,
        sampler: TaskSampler,
        held_out_ids: Sequence[str],
        log: RunLog,
        log_episodes_interval: int = 10,
        log_tokens_interval: int | None = None,
        processes: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        self.config = config
        self.policy = policy
        self.template = template
        self.log = log
        self.rollout = rollout
        self.sampler = sampler
        self._planner = RoundPlanner(config, sampler)
        self.held_out_ids = held_out_ids
        self.update_log = UpdateLog(
            log,
            config,
            template,
            episodes_interval=log_episodes_interval,
            tokens_interval=log_tokens_interval,
        )
        self.processes = processes
        self.interruption = Interruption(alone=processes.count == 1)
        processes.shard(policy)
        self.optimisers = make_optimisers(policy, config)
        self.counters = Counters()
        self.values = make_value_source(config)
        self._ahead = PrefetchedRounds(config, self._planner, rollout)
        self._staleness = 0  # of the last batch: updates that its weights are behind
        self._timings: dict[str, float | None] = {}
        self._started = time.perf_counter()
        self._notices = RunNotices(shown=processes.is_first)
        # what the critic was fitted to after each of the last updates
        self._window = deque[CriticSamples](maxlen=config.critic_window_updates)
        self._saved: tuple[int, int] | None = None  # (updates, evaluation) of the newest checkpoint
        self.supervised: SupervisedLearner | None = None  # while it learns, before all updates

    def collect(self, on_episode: OnEpisode | None = None) -> list[EpisodeRecord]:
        """Collect the episodes of the next update (with --max_staleness, by older weights)."""
        started, cpu = time.perf_counter(), time.process_time()
        first = self._ahead.next_round(self.counters)
        results = [self._play(first, on_episode)]
        episodes, extra = results[0].episodes, 0
        while (
            extra + 1 < self._planner.max_rounds
            and len(groups_with_signal(episodes, self.config)) < self.config.episodes_per_update
        ):
            extra += 1
            results.append(self._play(self._planner.next_round(self.counters, extra), on_episode))
            episodes = [*episodes, *results[-1].episodes]
        self._staleness = self.counters.updates - first.version
        self._ahead.finish_round(self.counters)
        seconds = time.perf_counter() - started
        steps = sum(episode.num_steps for episode in episodes)
        self._timings = rollout_timings(results, steps, seconds)
        # only now: an interrupted collection is collected again
        self.counters.extra_rounds += extra
        self._count(results, cpu)
        return episodes

    def critic_warm_up_is_due(self) -> bool:
        """Whether the critic's warm-up on episodes of the start policy is due."""
        return (
            self.counters.updates == 0
            and self.config.critic_warmup_episodes > self.counters.critic_episodes == 0
        )

    def warm_up_critic(self, on_episode: OnEpisode | None = None) -> None:
        """Fit the critic to --critic_warmup_episodes of the start policy."""
        cpu = time.process_time()
        result = self._play(self._planner.warm_up_round(), on_episode)
        samples = self._critic_samples(self._learnable(result.episodes))
        generator = self._generator(SeedStream.CRITIC_FIT)
        figures = fit_critic(self.policy.value_head, [samples], self.config, generator)
        self.counters.critic_episodes = len(result.episodes)
        self._count([result], cpu)
        self.log.write_metrics(0, {**figures})

    def _count(self, results: Sequence[RolloutResult], cpu: float) -> None:
        """Count collected episodes and tokens, and the CPU time since `cpu`."""
        episodes = [episode for result in results for episode in result.episodes]
        self.counters.env_steps += sum(episode.num_steps for episode in episodes)
        self.counters.episodes += len(episodes)
        self.counters.invalid_episodes += sum(episode.invalid for episode in episodes)
        every = RolloutResult.combine(results)
        self.counters.sampled_tokens += int(every.sampled_tokens)
        self.counters.train_cpu_seconds += every.cpu_seconds
        self.counters.train_cpu_seconds += self.processes.sum(time.process_time() - cpu)

    def _learnable(self, episodes: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
        """Return the episodes to learn from, with the critic's features, by role."""
        usable = learnable_episodes(episodes, self.config)
        if not (any(episode.roles for episode in usable) or self.config.critic_has_own_rows):
            return usable
        add_critic_rows(usable, self.config, self.template)
        return split_by_role(usable, self.config.frozen_role_names)

    def _critic_samples(self, episodes: Sequence[EpisodeRecord]) -> CriticSamples:
        return critic_samples(self.policy, episodes, self.config, self.processes)

    def learn(self, episodes: Sequence[EpisodeRecord]) -> dict[str, float | None]:
        """Learn from episodes: update the policy, log it and return the metrics."""
        started, cpu = time.perf_counter(), time.process_time()
        metrics = episode_metrics(episodes)
        usable = collected = self._learnable(episodes)
        if self._planner.group_size > 1:
            share = len(groups_with_signal(usable, self.config)) / max(1, len(usable))
            metrics["env/informative_share"] = share
        if self._planner.max_rounds > 1:
            usable = groups_with_signal(usable, self.config)
        rates = learning_rates(self.config, self.counters.updates)
        trace = self.update_log.make_diagnostics(self.counters.updates + 1)
        if usable:
            set_learning_rates(self.optimisers, rates)
            fits_apart = self.config.critic_window_updates > 0
            metrics |= update(
                self.policy,
                self.optimisers,
                usable,
                replace(self.config, value_coef=0.0) if fits_apart else self.config,
                self._generator(SeedStream.MINIBATCHES),
                self.processes,
                trace=trace,
                source=self.values,
            )
        if self.config.critic_window_updates and collected:
            self._window.append(self._critic_samples(collected))
            generator = self._generator(SeedStream.CRITIC_FIT)
            metrics |= fit_critic(self.policy.value_head, self._window, self.config, generator)
        if (stage := self.sampler.curriculum_stage(self.counters.updates)) is not None:
            self._notices.log_new_stage(self.counters.updates, *stage)
            metrics["charts/curriculum_stage"] = float(stage[0])
        metrics.setdefault("update/policy_skipped", 1.0)
        skipped = bool(metrics["update/policy_skipped"])
        self._notices.warn_no_signal(self.counters.updates, episodes, skipped=skipped)
        metrics["charts/learning_rate"] = rates[0]
        if self.config.max_staleness > 1:
            metrics["mismatch/staleness"] = float(self._staleness)
        seconds = time.perf_counter() - started
        self.counters.updates += 1
        outcomes = task_outcomes(episodes, strict=self.config.reward.startswith("strict"))
        self.counters.successes = self.sampler.record_outcomes(self.counters.successes, outcomes)
        self.counters.train_cpu_seconds += self.processes.sum(time.process_time() - cpu)
        counters = {"env_steps": self.counters.env_steps, "episodes": self.counters.episodes}
        rate = sum(len(row.ids) for episode in usable for row in episode.rows) / seconds
        timings = {"perf/update_tokens_per_s": rate, "perf/time_s/update": seconds}
        self.update_log.write(
            self.counters.updates,
            episodes,
            usable,
            metrics={**counters, **metrics},
            timings={**self._timings, **timings},
            trace=trace,
        )
        return metrics

    def _generator(self, stream: SeedStream) -> torch.Generator:
        """Return the random generator of a stream, seeded by (seed, update)."""
        seed = derive_seed(self.config.seed, self.counters.updates, stream)
        return torch.Generator().manual_seed(seed)

    def evaluate(self, on_episode: OnEpisode | None = None) -> dict[str, Any]:
        """Play the held-out tasks, greedily and sampled; log and return success rates."""
        number, started = self.counters.updates, time.perf_counter()
        if self.counters.evaluated_at == number:
            return self.counters.latest
        evaluation = self.play_held_out(number, on_episode)
        self.log.write_metrics(number, evaluation.metrics())
        self.log.write_timings(number, {"perf/time_s/evaluation": time.perf_counter() - started})
        latest = self.log_evaluation(evaluation, f"{number:06d}")
        self.counters.add_evaluation(latest, strict=self.config.reward.startswith("strict"))
        self._notices.warn_of_ruin(self.counters, self.config, self.log.folder)
        return latest

    def play_held_out(self, version: int, on_episode: OnEpisode | None = None) -> Evaluation:
        """Play held-out tasks with given weights, greedily and sampled."""
        rounds = evaluation_rounds(self.held_out_ids, self.config, version)
        return Evaluation(*(self._play(round_, on_episode).episodes for round_ in rounds))

    def log_evaluation(self, evaluation: Evaluation, name: str) -> dict[str, Any]:
        """Log an evaluation's episodes and return its success rates."""
        self.log.write_episodes(f"greedy_{name}", evaluation.greedy, self.template.spell)
        self.log.write_episodes(f"sampled_{name}", evaluation.sampled, self.template.spell)
        return {**evaluation.as_json(), **evaluation_uncertainty(evaluation)}

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second that the last rollout sampled."""
        return self._timings.get("perf/rollout_tokens_per_s")

    @property
    def wall_seconds(self) -> float:
        """Seconds of wall time since this command started or resumed the run."""
        return time.perf_counter() - self._started

    def evaluation_is_due(self) -> bool:
        """Whether an evaluation is due before the next update."""
        number, interval = self.counters.updates, self.config.eval_interval
        due = number == 0 or self.is_over() or (interval > 0 and number % interval == 0)
        return due and self.counters.evaluated_at != number

    def save_is_due(self) -> bool:
        """Whether to save a checkpoint: at the interval, the best evaluation, the end."""
        number, interval = self.counters.updates, self.config.save_interval
        at_interval = number > 0 and interval > 0 and number % interval == 0
        is_best = interval > 0 and self.counters.best.get("update") == number
        due = at_interval or is_best or self.is_over()
        return due and self._saved != (number, self.counters.evaluated_at)

    def is_over(self) -> bool:
        """Whether the run has finished learning."""
        return self.counters.updates >= self.config.num_updates

    def save(self) -> Path:
        """Save a checkpoint; return its folder. FloatingPointError for NaN weights."""
        number, folder = self.counters.updates, self.log.folder / "checkpoints"
        state: dict[str, Any] = {
            "counters": asdict(self.counters),
            "position": self.log.file_positions(),
            "optimisers": {
                name: full_state_dict(optimiser)
                for name, optimiser in self.optimisers._asdict().items()
            },
        }
        if self._window:
            state["critic_window"] = [tuple(samples) for samples in self._window]
        if values := self.values.state():
            state["values"] = values
        if ahead := self._ahead.state():
            state["ahead"] = ahead
        name = f"update_{number:06d}"
        if self.supervised is not None:
            state["supervised"] = self.supervised.state()
            name = f"sft_{self.supervised.steps:06d}"  # in order of name before those of updates
        with self.processes.unsharded(self.policy) as policy:
            check_weights(policy)
            if self.processes.is_first:
                tokenizer = self.template.tokenizer
                best = self.counters.best.get("update") == number
                save_checkpoint(
                    folder,
                    name,
                    policy=policy,
                    tokenizer=tokenizer,
                    state=state,
                    keep=self.config.keep_checkpoints,
                    best=best,
                )
        self._saved = (number, self.counters.evaluated_at)
        return folder / name

    def restore(self, checkpoint: Path) -> None:
        """Restore the run from a checkpoint; CheckpointError if it does not fit."""
        state = load_state(checkpoint)
        try:
            self.supervised = restore_supervised_learner(self.supervised, state)
            self.counters = Counters.from_state(state["counters"])
            for name, optimiser in self.optimisers._asdict().items():
                load_full_state_dict(optimiser, state["optimisers"][name])
            self.log.rewind(state["position"], self.counters.updates)
            # Those of version 0.3 end with a fold of each task.
            self._window.extend(CriticSamples(*row[:4]) for row in state.get("critic_window", []))
            if "values" in state:
                self.values.load_state(state["values"])
            ahead = state.get("ahead", [])
            saved = [ahead] if isinstance(ahead, dict) else ahead  # as earlier versions wrote it
            self._ahead.restore(saved, self.counters, known=self.sampler.has_tasks)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise unfit_checkpoint_error(checkpoint, error) from error
        self._saved = (self.counters.updates, self.counters.evaluated_at)

    def close(self) -> None:
        """Close the run's files and environments."""
        self.log.close()
        self.rollout.close()

    def _play(
        self, rollout_round: RolloutRound, on_episode: OnEpisode | None = None
    ) -> RolloutResult:
        """Play a round of episodes; SIGINT is delivered only here."""
        return self.rollout.play(rollout_round, self.interruption, on_episode)


class RunNotices:
    """Notices of a run, each printed once by the first process."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._skipped = 0  # updates in a row that had nothing to learn from
        self._stage = ""

    def warn_no_signal(
        self, update: int, episodes: Sequence[EpisodeRecord], *, skipped: bool
    ) -> None:
        """Warn that an update had no learning signal: the first in a row, then each tenth."""
        self._skipped = self._skipped + 1 if skipped else 0
        if self._skipped % WARN_EVERY_SKIPPED == 1 and self._shown:
            logger.warning("update %d: %s", update + 1, no_signal_warning(episodes))

    def warn_of_ruin(self, counters: Counters, config: TrainConfig, folder: Path) -> None:
        """Warn that held-out success fell below half of its best, and how to go back."""
        lost = counters.loss_of_best()
        if lost is None or not self._shown:
            return
        back = "no checkpoint of it was kept (--save_interval 0)"
        if config.save_interval:
            settings = shlex.quote(str(folder / "config.json"))
            again = f"--config {settings} --resume best --lr {config.lr / 2:g}"
            back = f"go back to its checkpoint: {shell_command('train')} {again}"
        logger.warning(
            "update %d: held-out success (%s) is %.3f, below half of its best, %.3f after update "
            "%d; %s",
            *(counters.updates, *lost, counters.best["update"], back),
        )

    def log_new_stage(self, update: int, number: int, name: str) -> None:
        """Log a new stage of the curriculum."""
        if name != self._stage and self._shown:
            logger.info("update %d: curriculum stage %d, %s", update + 1, number, name)
        self._stage = name
