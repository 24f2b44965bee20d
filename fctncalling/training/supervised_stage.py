"""Supervised stage of a run: base evaluation, optimiser steps, log and checkpoints."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.run.update_log import peak_memory_metrics
from fctncalling.algorithms.supervised import SupervisedLearner

if TYPE_CHECKING:
    from fctncalling.progress_bar import Progress
    from fctncalling.training.rollouts.rollout_backends import OnEpisode
    from fctncalling.training.training_run import TrainingRun

BASE_VERSION = -1  # of the weights that the stage starts from; updates are counted from 0


def learn_demonstrations(run: TrainingRun, progress: Progress) -> None:
    """Run the supervised stage: evaluate the base model, take the steps, save.

    Nothing where the run has no such stage, or is past it.
    """
    learner = run.supervised
    if learner is None:
        return
    if not run.counters.base:
        steps = f"by the base model, before {learner.num_steps} supervised steps"
        progress.show_evaluation_start(len(run.held_out_ids), steps)
        with progress.evaluation(run) as stage:
            rates = _evaluate_base(run, stage.count)
        progress.show_evaluation(rates, "held-out tasks, base model")
    interval = run.config.sft_save_interval
    with progress.supervised_steps(learner.num_steps - learner.steps) as stage:
        while not learner.is_over:
            metrics = _take_step(run, learner)
            progress.show_supervised_step(stage, metrics, learner.steps, learner.num_steps)
            if interval and learner.steps % interval == 0 and not learner.is_over:
                run.save()
    if run.policy.critic_model is not None and run.config.init_critic_from is None:
        _copy_decoder(run.policy)
    run.supervised = None  # its optimiser's memory is free again
    run.save()


def _evaluate_base(run: TrainingRun, on_episode: OnEpisode) -> dict[str, Any]:
    """Play the held-out tasks, log and return the success rates."""
    started = time.perf_counter()
    evaluation = run.play_held_out(BASE_VERSION, on_episode)
    run.log.write_timings(0, {"perf/time_s/base_evaluation": time.perf_counter() - started})
    rates = evaluation.metrics().items()
    run.log.write_metrics(0, {name.replace("eval/", "base/"): value for name, value in rates})
    run.counters.base = run.log_evaluation(evaluation, "base")
    return run.counters.base


def _take_step(run: TrainingRun, learner: SupervisedLearner) -> dict[str, float]:
    """Take and log a step; KeyboardInterrupt restores the weights from before it."""
    started, cpu = time.perf_counter(), time.process_time()
    alone, interrupted, metrics = run.processes.count == 1, False, dict[str, float]()
    try:
        with run.interruption.allow_interrupts():
            if alone:  # nobody waits for these passes
                metrics = learner.compute_gradient()
    except KeyboardInterrupt:
        interrupted = True
    if run.processes.sum(float(interrupted)):
        raise KeyboardInterrupt
    if not alone:
        metrics = learner.compute_gradient()
    metrics |= learner.take_step()
    counters, seconds = run.counters, time.perf_counter() - started
    counters.sft_steps = learner.steps
    counters.sft_tokens += int(metrics["trained_tokens"])
    counters.sft_cpu_seconds += run.processes.sum(time.process_time() - cpu)
    timings = {"sft/tokens_per_s": metrics["tokens"] / seconds, "sft/time_s": seconds}
    named = {f"sft/{name}": value for name, value in metrics.items()}
    run.log.write_supervised_step(learner.steps, named, {**timings, **peak_memory_metrics()})
    return metrics


@torch.no_grad()
def _copy_decoder(policy: ActorCritic) -> None:
    """Copy the learned weights to a critic with a separate model."""
    assert policy.critic_model is not None
    learned = policy.model.get_decoder().parameters()
    for critic, actor in zip(policy.critic_model.parameters(), learned, strict=True):
        critic.copy_(actor)


def progress_text(run: TrainingRun) -> str:
    """Format the progress of a run."""
    if run.supervised is not None:
        return f"{run.supervised.steps} of {run.supervised.num_steps} supervised steps"
    return f"{run.counters.updates} updates"
