"""Loop of a training run, and its report at the end."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fctncalling.training.announce import shell_command, shell_python

if TYPE_CHECKING:
    from fctncalling.algorithms.config import TrainConfig
    from fctncalling.progress_bar import Progress
    from fctncalling.training.counters import Counters
    from fctncalling.training.run_config import RunConfig
    from fctncalling.training.training_run import TrainingRun


def run_loop(run: TrainingRun, progress: Progress, profiler: Any = None) -> None:
    """Collect, learn, evaluate and save until the run is done.

    profiler: of the laboratory, for --profile.
    """
    from fctncalling.training.supervised_stage import learn_demonstrations  # --help needs no torch

    learn_demonstrations(run, progress)
    while True:
        if run.evaluation_is_due():
            if run.counters.updates == 0:
                behind = "after the supervised stage" if run.counters.sft_steps else ""
                progress.show_evaluation_start(len(run.held_out_ids), behind)
            with progress.evaluation(run) as stage:
                rates = run.evaluate(stage.count)
            progress.show_evaluation(rates)
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
    from fctncalling.algorithms.run.evaluation import plot_curve, print_table, write_evaluation

    if not run.processes.is_first:
        return
    counters, config, folder = run.counters, run.config, run.log.folder
    evaluations = counters.evaluations()
    write_evaluation(
        folder,
        **evaluations,
        seed=config.seed,
        train_cpu_seconds=counters.train_cpu_seconds,
        algorithm=config.algorithm_name,
        updates=counters.updates,
        episodes=counters.episodes,
        invalid_episodes=counters.invalid_episodes,
        env_steps=counters.env_steps,
        sampled_tokens=counters.sampled_tokens,
        wall_seconds=run.wall_seconds,
        prompt_style=run_config.prompt_style,
        **_supervised_figures(counters),
    )
    curve = plot_curve(folder)
    print_table(**evaluations)
    print("\n" + "\n".join(_learned(counters, config)))
    print(
        f"This command ran for {run.wall_seconds:.0f} s, evaluations and start included.\n"
        f"Results: {folder}\n"
        f"  evaluation.json{', curve.png' if curve else ''}, metrics.jsonl, episodes/, checkpoints/"
    )
    print(*_commands_to_look(folder, run_config), sep="\n")


def _commands_to_look(folder: Path, run_config: RunConfig) -> list[str]:
    """Return the commands that show a run, as the user's shell runs them."""
    name = shlex.quote(str(folder))
    flags = ["--tools", *run_config.tools.split(",")] if run_config.tools else []
    flags += ["--allow_task_tools"] * run_config.allow_task_tools
    lines = [f"Look at it:\n  {' '.join([shell_command('view'), name, *map(shlex.quote, flags)])}"]
    if any(folder.glob("events.out.tfevents*")):
        lines.append(f"  {shell_python()} -m tensorboard.main --logdir {name}")
    return lines


def _supervised_figures(counters: Counters) -> dict[str, Any]:
    """Return the entries of evaluation.json about the supervised stage, if there was one."""
    if not counters.sft_steps:
        return {}
    return {
        "sft_steps": counters.sft_steps,
        "sft_tokens": counters.sft_tokens,
        "sft_cpu_seconds": counters.sft_cpu_seconds,
    }


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
