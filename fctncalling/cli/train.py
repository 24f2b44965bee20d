"""Train a policy to call functions over several turns: `python train_fctncalling.py [flags]`."""

from __future__ import annotations

import os

os.environ.setdefault(
    "OMP_WAIT_POLICY", "PASSIVE"
)  # before torch: spinning threads slow every neighbour down

import argparse
import dataclasses
import logging
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fctncalling.algorithms import config_fields
from fctncalling.algorithms.config import SettingError, TrainConfig, add_arguments
from fctncalling.algorithms.rollout.task_sampler import Candidate, TaskSampler
from fctncalling.algorithms.run.idle_flags import notes_on
from fctncalling.algorithms.run.model_presets import PRESETS
from fctncalling.cli.shared.flag_synonyms import NAMES_ELSEWHERE
from fctncalling.cli.shared.parser import OneLineParser
from fctncalling.cli.shared.progress_bar import Progress
from fctncalling.data.bfcl import TaskError
from fctncalling.training.load_policy import ModelError, load_policy
from fctncalling.training.ray.worker_pool import RolloutError
from fctncalling.training.resume import checkpoint_to_resume
from fctncalling.training.run_config import JOB_SETTINGS
from fctncalling.training.run_description import run_description
from fctncalling.training.task_setup import RunConfig, environments

if TYPE_CHECKING:
    from fctncalling.algorithms.distributed.process_group import ProcessGroup
    from fctncalling.algorithms.run.logs import RunLog
    from fctncalling.training.training_run import TrainingRun

DESCRIPTION = """\
Train a language model to call functions over several turns, with an actor-critic on tasks in
BFCL's format.

Without flags, the embedded small model learns the embedded tasks on one CPU core in a few minutes.
With --dataset_path FILE alone, a fifth of its tasks is held out for the evaluation before and
after.
A model of your own: --model_name_or_path FOLDER --preset SIZE.
"""
EPILOG = """\
TPPO is token-level PPO with exact Bellman backup with action decomposition (BAD): every token has
its own advantage, but time passes (gamma, lam) between actions only, so a longer wording of the
same call is worth the same. It is not trust-region PPO. --gamma_token and --lam_token below 1
give the variants that discount inside an action. APPO, where it is offered, is action-level PPO
(one ratio and one advantage an action); it is not RLlib's APPO, which is asynchronous PPO.

--env_name calculator and python_math are jobs with tools in mid-generation: each has a small
model, questions and shorter defaults of its own (fctncalling/training/run_config.py).

Results lie in results/<experiment>/<model>/<dataset>/<algorithm>/: config.json, metrics.jsonl
(identical for equal seeds), timings.jsonl, tensorboard events, episodes/, checkpoints/,
evaluation.json, curve.png. Ctrl-C saves a checkpoint; --resume goes on from it exactly.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, 1 at a NaN, 2 where the user can mend it, 130 where Ctrl-C
    ended it.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    of_several = os.environ.get("RANK", "0") != "0"  # processes, of which the first speaks
    logging.getLogger("fctncalling").setLevel(logging.WARNING if of_several else logging.INFO)
    words = list(sys.argv[1:] if arguments is None else arguments)
    namespace = parsed(words)
    from fctncalling.algorithms.run.checkpoint import CheckpointError
    from fctncalling.algorithms.run.logs import RunExistsError
    from fctncalling.algorithms.run.run_lock import RunLockedError

    refusals = (
        SettingError,
        TaskError,
        RunExistsError,
        RunLockedError,
        CheckpointError,
        ModelError,
    )
    try:
        config = TrainConfig.from_args(namespace)
        surroundings = RunConfig(
            **{f.name: getattr(namespace, f.name) for f in dataclasses.fields(RunConfig)}
        )
        for note in notes_on(config, given_flags(words)):
            print(f"Note: {note}.")
        return train(config, surroundings, words)
    except KeyboardInterrupt:  # later ones are answered by the run, which saves itself
        print("\nInterrupted while starting; nothing was learned or saved.", file=sys.stderr)
        return 130
    except refusals as error:
        if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
            print(f"error: {error}", file=sys.stderr)
        return 2


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the settings of a command line; what it leaves open is as its --env_name, then its
    --preset has it.
    """
    parser = build_parser()
    namespace = parser.parse_args(words)
    parser.set_defaults(**JOB_SETTINGS.get(namespace.env_name, {}))
    parser.set_defaults(**PRESETS.get(namespace.preset, {}))
    return parser.parse_args(words)


def given_flags(words: Sequence[str]) -> set[str]:
    """Return the names of the flags that a command line has, whatever their values."""
    parser = build_parser()
    for action in parser._actions:
        action.default = argparse.SUPPRESS
    return set(vars(parser.parse_args(words)))


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with a flag for every setting."""
    parser = OneLineParser(
        "train_fctncalling.py",
        usage="train_fctncalling.py [--FLAG VALUE ...]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.names_elsewhere = NAMES_ELSEWHERE
    add_arguments(parser)
    config_fields.add_arguments(parser, RunConfig)
    return parser


def train(config: TrainConfig, surroundings: RunConfig, words: Sequence[str] = ()) -> int:
    """Train, evaluating before and after; return 0, 1 where a NaN or lost workers ended it, 130
    where Ctrl-C did.
    """
    from fctncalling.algorithms.run.checkpoint import CheckpointError
    from fctncalling.algorithms.run.cut_actions import AllCutError
    from fctncalling.training.profiler import profiling

    run = prepare(config, surroundings)
    show = Progress(config.num_updates, run.counters.updates, shown=run.processes.is_first)
    with run.interruption, profiling(run, surroundings.profile and run.processes.is_first):
        try:
            drive(run, show)
            show.close()
            report(run)
        except KeyboardInterrupt:
            show.close()
            print(
                f"\nInterrupted after {run.counters.updates} updates; saved {run.save()}. Go on "
                "with:\n"
            )
            print(f"  {command_to_resume(words, run.processes.count)}\n")
            return 130
        except FloatingPointError as error:
            show.close()
            print(f"error: after {run.counters.updates} updates: {error}", file=sys.stderr)
            return 1
        except RolloutError as error:
            show.close()
            print(
                f"error: after {run.counters.updates} updates: {error}\nSaved {run.save()}; mend "
                "it, then the same "
                "command with --resume goes on.",
                file=sys.stderr,
            )
            return 1
        except AllCutError as error:
            show.close()
            print(
                f"error: after {run.counters.updates} updates: {error}.\nSaved {run.save()}; "
                "--resume goes on from "
                "there.",
                file=sys.stderr,
            )
            return 1
        except CheckpointError as error:
            show.close()
            print(f"error: after {run.counters.updates} updates: {error}", file=sys.stderr)
            return 1
        except OSError as error:
            show.close()
            print(
                f"error: after {run.counters.updates} updates: {run.log.folder} cannot be written "
                f"to ({error}). Mend "
                "it, then --resume goes on from the last checkpoint.",
                file=sys.stderr,
            )
            return 1
        finally:
            run.close()
    return 0


def drive(run: TrainingRun, show: Progress) -> None:
    """Play, learn, evaluate and save until the run is over."""
    while True:
        if run.evaluation_is_due():
            show.evaluation(run.evaluate())
        if run.save_is_due():
            run.save()
        if run.is_over():
            return
        show.update(run.learn(run.collect(show.episode)), run)


def command_to_resume(words: Sequence[str], num_processes: int = 1) -> str:
    """Return the command line that goes on with a run of the given words."""
    kept = [
        word
        for number, word in enumerate(words)
        if not word.startswith("--resume")
        and not (number and words[number - 1] == "--resume" and word[:1] != "-")
    ]
    program = "python" if num_processes == 1 else f"torchrun --nproc_per_node {num_processes}"
    return f"{program} train_fctncalling.py {shlex.join([*kept, '--resume'])}"


def prepare(
    config: TrainConfig,
    surroundings: RunConfig,
    own: tuple[Callable[[], Any], list[Candidate], list[str]] | None = None,
) -> TrainingRun:
    """Return a run with tasks, environments, policy and log in place, at its start or where
    --resume finds it.

    `own` takes the place of the environments that the settings ask for.
    """
    from fctncalling.algorithms.run.logs import results_folder
    from fctncalling.training.choose_rollout import check_rollout, chosen_rollout
    from fctncalling.training.start_checks import check_start

    check_rollout(config, surroundings)
    check_start(config, surroundings)
    processes = _started(config)
    folder = results_folder(config)
    checkpoint = checkpoint_to_resume(config, folder, is_first=processes.is_first)
    make_env, candidates, held_out_ids = own or environments(config, surroundings)
    sampler = TaskSampler(candidates, config)
    policy, template = load_policy(config, surroundings, checkpoint, processes.device)
    rollout = chosen_rollout(
        config,
        surroundings,
        policy=policy,
        template=template,
        make_env=make_env,
        processes=processes,
    )
    log = log_of(
        config, surroundings, folder, processes
    )  # last: a start that fails leaves no folder behind

    from fctncalling.training.training_run import TrainingRun

    run = TrainingRun(
        config,
        policy=policy,
        template=template,
        rollout=rollout,
        sampler=sampler,
        held_out_ids=held_out_ids,
        log=log,
        log_episodes_interval=surroundings.log_episodes_interval,
        processes=processes,
    )
    if checkpoint is not None:
        run.restore(checkpoint)
        print(f"Going on from {checkpoint}, after {run.counters.updates} updates.")
    else:
        log.rewind({}, -1)  # lines of a killed run that saved nothing
    return run


def _started(config: TrainConfig) -> ProcessGroup:
    """Return the processes of this launch, and say how many they are; the first alone prints."""
    from fctncalling.algorithms.distributed.process_group import init_process_group, launch_warning

    processes = init_process_group(config.device, fsdp=config.fsdp)
    if not processes.is_first:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    notes = filter(None, (f"Training in {processes}.", launch_warning(processes)))
    print(*notes, sep="\n", flush=True)
    return processes


def log_of(
    config: TrainConfig, surroundings: RunConfig, folder: Path, processes: ProcessGroup
) -> RunLog:
    """Return the log of the run, empty where it starts;
    of several processes the first writes it.
    """
    from fctncalling.algorithms.run.logs import NoLog, RunExistsError, RunLog

    if not processes.is_first:
        return NoLog(folder)
    described = {**dataclasses.asdict(config), **dataclasses.asdict(surroundings)}
    described |= run_description(config, processes.device)
    described["num_processes"] = processes.count
    resume = config.resume is not None
    try:
        return RunLog(
            folder,
            described,
            resume=resume,
            tensorboard=surroundings.tensorboard,
            wandb=surroundings.wandb,
        )
    except RunExistsError:
        raise
    except OSError as error:
        raise SettingError(
            f"--results_dir {config.results_dir}: cannot be written to ({error})"
        ) from error


def report(run: TrainingRun) -> None:
    """Write evaluation.json and curve.png, and say plainly what was done and where it lies; the
    first process does.
    """
    from fctncalling.algorithms.run.evaluation import plot_curve, print_table, write_evaluation

    if not run.processes.is_first:
        return
    counters, config, folder = run.counters, run.config, run.log.folder
    write_evaluation(
        folder,
        before=counters.before,
        after=counters.latest,
        seed=config.seed,
        train_cpu_seconds=counters.train_cpu_seconds,
        algorithm=config.algorithm_name,
        updates=counters.updates,
        episodes=counters.episodes,
        env_steps=counters.env_steps,
        sampled_tokens=counters.sampled_tokens,
        wall_seconds=run.wall_seconds,
    )
    curve = plot_curve(folder)
    print_table(counters.before, counters.latest)
    print(
        f"\n{config.algorithm_name} learned from {counters.episodes} episodes "
        f"({counters.env_steps} steps) in "
        f"{counters.updates} updates and {counters.train_cpu_seconds:.0f} CPU seconds, seed "
        f"{config.seed}.\n"
        f"This command ran for {run.wall_seconds:.0f} s, evaluations and start included.\n"
        f"Results: {folder}\n"
        f"  evaluation.json{', curve.png' if curve else ''}, metrics.jsonl, episodes/, "
        "checkpoints/\n"
        f"  tensorboard --logdir {folder}"
    )
