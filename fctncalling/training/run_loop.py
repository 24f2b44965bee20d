"""Loop of a training run, its supervised stage before it, and its report at the end."""

from __future__ import annotations

import shlex
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from fctncalling.training.announce import shell_command, shell_python

if TYPE_CHECKING:
    from fctncalling.algorithms.config import TrainConfig
    from fctncalling.algorithms.supervised import SupervisedLearner
    from fctncalling.progress_bar import Progress
    from fctncalling.training.counters import Counters
    from fctncalling.training.run_config import RunConfig
    from fctncalling.training.training_run import TrainingRun


BASE_VERSION = -1  # of the weights that the stage starts from; updates are counted from 0


def learn_demonstrations(run: TrainingRun, progress: Progress) -> None:
    """Run the supervised stage: evaluate the base model, take the steps, save.

    Nothing where the run has no such stage, or is past it.
    """
    import torch  # --help needs none

    learner = run.supervised
    if learner is None:
        return
    if not run.counters.base:
        steps = f"by the base model, before {learner.num_steps} supervised steps"
        progress.show_evaluation_start(len(run.held_out_ids), steps)
        started = time.perf_counter()
        with progress.evaluation(run) as stage:
            evaluation = run.play_held_out(BASE_VERSION, stage.count)
        seconds = time.perf_counter() - started
        run.log.write_timings(0, {"perf/time_s/base_evaluation": seconds})
        rates = evaluation.metrics().items()
        run.log.write_metrics(0, {name.replace("eval/", "base/"): value for name, value in rates})
        run.counters.base = run.log_evaluation(evaluation, "base")
        progress.show_evaluation(run.counters.base, "held-out tasks, base model")
    interval = run.config.sft_save_interval
    with progress.supervised_steps(learner.num_steps - learner.steps, run) as stage:
        while not learner.is_over:
            metrics = _take_step(run, learner)
            progress.show_supervised_step(stage, metrics, learner.steps, learner.num_steps)
            if interval and learner.steps % interval == 0 and not learner.is_over:
                run.save()
    if run.policy.critic_model is not None and run.config.init_critic_from is None:
        learned = run.policy.model.get_decoder().parameters()
        critics = run.policy.critic_model.parameters()
        with torch.no_grad():  # a critic with a model of its own begins with what was learned
            for critic, actor in zip(critics, learned, strict=True):
                critic.copy_(actor)
    run.supervised = None  # its optimiser's memory is free again
    run.save()


def _take_step(run: TrainingRun, learner: SupervisedLearner) -> dict[str, float]:
    """Take and log a step; KeyboardInterrupt restores the weights from before it."""
    from fctncalling.algorithms.run.update_log import peak_memory_metrics

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


def progress_text(run: TrainingRun) -> str:
    """Format the progress of a run."""
    if run.supervised is not None:
        return f"{run.supervised.steps} of {run.supervised.num_steps} supervised steps"
    return f"{run.counters.updates} updates"


def run_loop(run: TrainingRun, progress: Progress, profiler: Any = None) -> None:
    """Collect, learn, evaluate and save until the run is done.

    profiler: of the laboratory, for --profile.
    """
    learn_demonstrations(run, progress)
    while True:
        if run.evaluation_is_due():
            if run.counters.updates == 0:
                behind = "after the supervised stage" if run.counters.sft_steps else ""
                progress.show_evaluation_start(len(run.held_out_ids), behind)
            with progress.evaluation(run) as stage:
                rates = run.evaluate(stage.count)
            model = f"{run.counters.evaluations()['before']['stage']} model"
            if run.counters.updates:
                model = f"after update {run.counters.updates}"
            progress.show_evaluation(rates, f"held-out tasks, {model}")
        if run.save_is_due():
            run.save()
        if run.is_over():
            return
        if run.critic_warm_up_is_due():
            with progress.collection(run, critic=True) as stage:
                run.warm_up_critic(stage.count)
        timed = nullcontext() if profiler is None else profiler.time_collection()
        with timed, progress.collection(run) as stage:
            episodes = run.collect(stage.count)
        timed = nullcontext() if profiler is None else profiler.time_learning()
        with timed, progress.learning():
            metrics = run.learn(episodes)
        progress.show_update(metrics, run)


def write_run_report(run: TrainingRun, run_config: RunConfig) -> None:
    """Write the report of a finished run: evaluation.json, curve.png, and a printed summary."""
    from fctncalling.algorithms.run.checkpoint import checkpoints_text
    from fctncalling.algorithms.run.evaluation import plot_curve, print_table
    from fctncalling.algorithms.run.logs import write_json

    if not run.processes.is_first:
        return
    counters, config, folder = run.counters, run.config, run.log.folder
    of_stage = ("sft_steps", "sft_tokens", "sft_cpu_seconds") * bool(counters.sft_steps)
    evaluations = counters.evaluations()
    figures = {
        **evaluations,
        "seed": config.seed,
        "train_cpu_seconds": counters.train_cpu_seconds,
        "algorithm": config.algorithm_name,
        "updates": counters.updates,
        "episodes": counters.episodes,
        "invalid_episodes": counters.invalid_episodes,
        "env_steps": counters.env_steps,
        "sampled_tokens": counters.sampled_tokens,
        "wall_seconds": run.wall_seconds,
        "prompt_style": run_config.prompt_style,
        **{name: getattr(counters, name) for name in of_stage},
    }
    write_json(folder / "evaluation.json", figures)
    curve = plot_curve(folder)
    print_table(**evaluations)
    print("\n" + "\n".join(_learned(counters, config)))
    print(
        f"It ran for {run.wall_seconds:.0f} s, evaluations included, from the loaded model on.\n"
        f"Results: {folder}\n"
        f"  evaluation.json{', curve.png' if curve else ''}, metrics.jsonl, episodes/, checkpoints/"
        f"\n  {checkpoints_text(folder / 'checkpoints')}"
    )
    name = shlex.quote(str(folder))
    flags = ["--tools", *run_config.tools.split(",")] if run_config.tools else []
    flags += ["--allow_task_tools"] * run_config.allow_task_tools
    print(f"Look at it:\n  {' '.join([shell_command('view'), name, *map(shlex.quote, flags)])}")
    if any(folder.glob("events.out.tfevents*")):
        print(f"  {shell_python()} -m tensorboard.main --logdir {name}")
    export = f"{shell_command('export')} --checkpoint {name} --output trained_model"
    print(f"Use the model (export names a run on unseen tasks):\n  {export}")


def _learned(counters: Counters, config: TrainConfig) -> list[str]:
    """Return a sentence on the data and duration of each stage of training."""
    sentences = []
    if counters.sft_steps:
        sentences.append(
            f"Supervised fine-tuning took {counters.sft_steps} steps on {counters.sft_tokens:,} "
            f"trained tokens and {counters.sft_cpu_seconds:.0f} CPU seconds, seed {config.seed}."
        )
    if counters.updates or not sentences:
        sentences.append(
            f"{config.algorithm_name} learned from {counters.episodes} episodes "
            f"({counters.env_steps} steps, {counters.invalid_episodes} invalid and left out) in "
            f"{counters.updates} updates and {counters.train_cpu_seconds:.0f} CPU seconds, seed "
            f"{config.seed}."
        )
    return sentences
