"""Train a policy to call functions over several turns: `fctncalling train [flags]`."""

from __future__ import annotations

import os

# Before torch: spinning threads slow every neighbour down.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import dataclasses
import logging
import shlex
import sys
import textwrap
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fctncalling.algorithms.config import SettingError, TrainConfig, add_arguments, config_fields
from fctncalling.algorithms.config.idle_flags import idle_flag_notes
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.cli.shared.broken_pipe import ignore_broken_pipe
from fctncalling.cli.shared.parser import BasicHelpAction, OneLineParser, missing_library_message
from fctncalling.cli.train_flags import (
    CONFIG_SETTINGS,
    FORMER_SETTINGS,
    NAMES_ELSEWHERE,
    deprecated_flag_notes,
    idle_run_flag_notes,
    read_config_file,
)
from fctncalling.data.bfcl import TaskError
from fctncalling.data.errors import RewardError
from fctncalling.envs.named_tools import add_working_folder_to_path
from fctncalling.laboratory import import_laboratory_module
from fctncalling.progress_bar import Progress
from fctncalling.training.announce import announce, is_first_process, shell_command
from fctncalling.training.load_policy import ModelError
from fctncalling.training.resume import keep_former_defaults
from fctncalling.training.run_config import EMBEDDED_MODEL_DEFAULTS, ENV_DEFAULTS, RunConfig
from fctncalling.training.run_loop import run_loop, write_run_report

if TYPE_CHECKING:
    from fctncalling.training.training_run import TrainingRun

DESCRIPTION = """\
Train a language model to call functions over several turns, with an actor-critic on tasks in
BFCL's format.

Without flags, the embedded small model learns the embedded tasks on one CPU core in two minutes. It
has settings of its own, which the defaults of the flags below are not:
{embedded}.
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
--env_name clarify learns to ask the user for a value where, and only where, the request lacks it:
--question_cost is the price of a question, --user who answers.

Results lie in results/<experiment>/<model>/<dataset>/<algorithm>/: config.json, metrics.jsonl
(identical for equal seeds), timings.jsonl, tensorboard events, episodes/, tokens/, alarms.jsonl,
checkpoints/, evaluation.json, curve.png. Ctrl-C saves a checkpoint; --resume goes on from it
exactly.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the main command of training; return its exit code.

    Return 0, 1 at a NaN, 2 if the user can mend it, 130 where Ctrl-C ended it. A run goes on where
    nobody reads its lines any more.
    """
    with ignore_broken_pipe(goes_on=True):
        return _run(list(sys.argv[1:] if arguments is None else arguments))


def _run(words: list[str]) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    level = logging.INFO if is_first_process() else logging.WARNING
    logging.getLogger("fctncalling").setLevel(level)
    add_working_folder_to_path()
    try:
        namespace = parse_settings(words)  # --help ends here, before torch is loaded
    except SettingError as error:
        return _refuse(error)
    try:
        return _start(namespace, words)
    except ModuleNotFoundError as error:
        if cure := missing_library_message(error):
            return _refuse(cure)
        raise


def _start(namespace: argparse.Namespace, words: Sequence[str]) -> int:
    """Run what the settings say; return the exit code."""
    from fctncalling.algorithms.run.checkpoint import CheckpointError
    from fctncalling.algorithms.run.logs import RunExistsError
    from fctncalling.algorithms.run.run_lock import RunLockedError

    errors_of_runs = (RunExistsError, RunLockedError, CheckpointError)
    try:
        given = given_flags(words)
        if namespace.resume is not None:
            keep_former_defaults(namespace, given | set(config_file_settings(namespace.config)))
        config = TrainConfig.from_args(namespace)
        run_config = RunConfig(
            **{f.name: getattr(namespace, f.name) for f in dataclasses.fields(RunConfig)}
        )
        notes = idle_flag_notes(config, given) + idle_run_flag_notes(config, run_config, given)
        notes += deprecated_flag_notes(given)
        if run_config.plan != "off":
            return _print_plan(config, run_config)
        announce(*(f"Note: {note}." for note in notes))
        return train(config, run_config, words)
    except KeyboardInterrupt:  # later ones are answered by the run, which saves itself
        print("\nInterrupted while starting; nothing was learned or saved.", file=sys.stderr)
        return 130
    except (SettingError, TaskError, ModelError, *errors_of_runs) as error:
        return _refuse(error)


def _refuse(error: Exception | str) -> int:
    if is_first_process():
        print(f"error: {error}", file=sys.stderr)
    return 2


def _print_plan(config: TrainConfig, run_config: RunConfig) -> int:
    """Print the memory plan after the checks of a start; return 0 if the run fits, else 1."""
    from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS
    from fctncalling.training.rollouts.choose_rollout import check_rollout
    from fctncalling.training.task_setup import make_task_setup
    from fctncalling.training.teams import team_roles

    check_rollout(config, run_config)
    roles: tuple[str, ...] = ()
    # tasks and team are read for these
    if config.roles_have_own_weights or config.team_critic == "central":
        make_env = make_task_setup(config, run_config).make_env
        roles = team_roles(config, make_env, SINGLE_PROCESS)
    plan = import_laboratory_module("memory_plan")
    exit_code: int = plan.print_plan(config, run_config, roles)
    return exit_code


def parse_settings(words: Sequence[str]) -> argparse.Namespace:
    """Parse the settings of a command line.

    What it leaves open is as in the file of --config, then as its --preset, then as its --env_name
    or the embedded model has it; an algorithm that is named learns by its own estimate.
    SettingError for a file that cannot be.
    """
    parser = build_parser()
    from_file = config_file_settings(parser.parse_args(words).config)
    parser.set_defaults(**from_file)
    namespace = parser.parse_args(words)
    parser.set_defaults(**_job_defaults(namespace))
    parser.set_defaults(**PRESETS.get(namespace.preset, {}))
    parser.set_defaults(**from_file)
    return parser.parse_args(words)


def _words(settings: dict[str, Any]) -> str:
    words = " ".join(
        f"--{name} {config_fields.format_value(value)}" for name, value in settings.items()
    )
    return textwrap.fill(words.replace('"', ""), 100)


def _job_defaults(namespace: argparse.Namespace) -> dict[str, Any]:
    is_main_job = namespace.env_name == TrainConfig.env_name
    if is_main_job and namespace.model_name_or_path is None:
        return EMBEDDED_MODEL_DEFAULTS
    return ENV_DEFAULTS.get(namespace.env_name, {})


def config_file_settings(path: str | None) -> dict[str, Any]:
    """Return the settings of the file of --config; SettingError where they cannot be."""
    known = [*config_fields.flags(TrainConfig), *config_fields.flags(RunConfig)]
    return {} if path is None else read_config_file(Path(path), known)


def given_flags(words: Sequence[str]) -> set[str]:
    """Return the given flags of a command line, by name."""
    parser = build_parser()
    for action in parser._actions:
        action.default = argparse.SUPPRESS
    return set(vars(parser.parse_args(words))) - {"config"}


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of `train`, with a flag for every setting."""
    parser = OneLineParser(
        "fctncalling train",
        usage="fctncalling train [--FLAG VALUE ...]",
        description=DESCRIPTION.format(embedded=_words(EMBEDDED_MODEL_DEFAULTS)),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.names_elsewhere = NAMES_ELSEWHERE
    parser.former_flags = {name: successor for name, (_, successor) in FORMER_SETTINGS.items()}
    parser.add_argument(
        "-h",
        "--help",
        action=BasicHelpAction,
        nargs=0,
        const=("options", config_fields.BASIC),
        default=argparse.SUPPRESS,
        help="Show the basic settings.",
    )
    parser.add_argument("--help-all", action="help", help="Show every flag.")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="Take settings from a YAML or JSON file, or from a run's config.json; flags of the "
        "command line come before them.",
    )
    add_arguments(parser)
    config_fields.add_arguments(parser, RunConfig)
    for action in parser._actions:
        if action.dest in CONFIG_SETTINGS:
            action.help = argparse.SUPPRESS
    return parser


def train(config: TrainConfig, run_config: RunConfig, words: Sequence[str] = ()) -> int:
    """Train by the settings, evaluating before and after; return the exit code.

    Return 0, 1 if a NaN or lost workers ended it, 2 if its reward did, 130 where Ctrl-C did.
    """
    from fctncalling.algorithms.generation.engine_api import RolloutError
    from fctncalling.algorithms.run.checkpoint import CheckpointError
    from fctncalling.training.prepare_run import prepare_run
    from fctncalling.training.supervised_stage import progress_text

    run = prepare_run(config, run_config)
    progress = Progress(config.num_updates, run.counters.updates, shown=run.processes.is_first)
    profiling: Any = nullcontext()
    if run_config.profile and run.processes.is_first:
        profiling = import_laboratory_module("profiler").run_profiler(run)
    with run.interruption, profiling as profiler:
        try:
            run_loop(run, progress, profiler)
            progress.close()
            write_run_report(run, run_config.prompt_style)
        except KeyboardInterrupt:
            progress.close()
            announce(
                f"\nInterrupted after {progress_text(run)}; saved {run.save()}. Go on with:\n",
                f"  {command_to_resume(words, run.processes.count)}\n",
            )
            return 130
        except RewardError as error:
            progress.close()
            print(f"error: after {progress_text(run)}: --{error}", file=sys.stderr)
            return 2
        except (FloatingPointError, RolloutError, CheckpointError, OSError) as error:
            progress.close()
            made, text = progress_text(run), _explain_failure(run, error)
            print(f"error: after {made}: {text}", file=sys.stderr)
            return 1
        finally:
            run.close()
    return 0


def _explain_failure(run: TrainingRun, error: Exception) -> str:
    """Return what ended a run and how to go on; saves it first where its state is sound."""
    from fctncalling.algorithms.generation.engine_api import RolloutError
    from fctncalling.algorithms.run.checkpoint import CheckpointError

    if isinstance(error, RolloutError):
        return f"{error}\nSaved {run.save()}; mend it, then the same command with --resume goes on."
    if isinstance(error, FloatingPointError | CheckpointError):
        return str(error)
    return (
        f"{run.log.folder} cannot be written to ({error}). Mend it, then --resume goes on from the "
        "last checkpoint."
    )


def command_to_resume(words: Sequence[str], num_processes: int = 1) -> str:
    """Return the command to resume a run of the given words."""
    kept = [
        word
        for number, word in enumerate(words)
        if not word.startswith("--resume")
        and not (number and words[number - 1] == "--resume" and word[:1] != "-")
    ]
    launcher = f"torchrun --nproc_per_node {num_processes}" if num_processes > 1 else ""
    return f"{shell_command('train', launcher)} {shlex.join([*kept, '--resume'])}"
