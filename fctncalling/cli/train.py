"""Train a language model to call functions over several turns: `fctncalling train [flags]`.

An actor-critic learns on tasks in BFCL's format. Without flags, the embedded small model learns the
embedded tasks on one CPU core in two minutes. It has settings of its own, which the defaults of the
flags below are not:
{embedded}.
With --dataset_path FILE alone, a fifth of its tasks is held out for the evaluation before and
after.
A model of your own: --model_name_or_path FOLDER --preset SIZE.

{flags}

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

from __future__ import annotations

import os

# Before torch: spinning threads slow every neighbour down.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import logging
import shlex
import sys
import textwrap
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.config.config_fields import BASIC, add_arguments, format_value
from fctncalling.cli.idle_flags import idle_flag_notes
from fctncalling.cli.shared.output import ignore_broken_pipe
from fctncalling.cli.shared.parser import (
    BasicHelpAction,
    OneLineParser,
    missing_library_message,
    plain_warnings,
)
from fctncalling.cli.train_flags import (
    FORMER_FLAGS,
    NAMES_ELSEWHERE,
    CommandLine,
    layer_settings,
)
from fctncalling.data.bfcl import TaskError
from fctncalling.data.errors import RewardError
from fctncalling.envs.named_tools import add_working_folder_to_path
from fctncalling.laboratory import import_laboratory_module
from fctncalling.progress_bar import Progress
from fctncalling.training.announce import announce, is_first_process, shell_command
from fctncalling.training.load_policy import ModelError
from fctncalling.training.resume import keep_former_defaults
from fctncalling.training.run_config import EMBEDDED_MODEL_DEFAULTS, RunConfig
from fctncalling.training.run_loop import progress_text, run_loop, write_run_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the main command of training; return its exit code.

    Return 0, 1 at a NaN, 2 if the user can mend it, 130 where Ctrl-C ended it. A run goes on where
    nobody reads its lines any more.
    """
    with ignore_broken_pipe(goes_on=True), plain_warnings():
        return _run(list(sys.argv[1:] if arguments is None else arguments))


def _run(words: list[str]) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    level = logging.INFO if is_first_process() else logging.WARNING
    logging.getLogger("fctncalling").setLevel(level)
    add_working_folder_to_path()
    try:
        line = parse_command_line(words)  # --help ends here, before torch is loaded
        return _start(line, words)
    except SettingError as error:
        return _refuse(error)
    except ModuleNotFoundError as error:
        if cure := missing_library_message(error):
            return _refuse(cure)
        raise


def _start(line: CommandLine, words: Sequence[str]) -> int:
    """Run with the settings; return the exit code."""
    from fctncalling.algorithms.run.checkpoint import CheckpointError
    from fctncalling.algorithms.run.logs import RunExistsError
    from fctncalling.algorithms.run.run_lock import RunLockedError

    try:
        if line.settings.resume is not None:
            keep_former_defaults(line.settings, line.named)
        config, run_config = line.configs()
        notes = idle_flag_notes(config, run_config, line.given)
        if run_config.plan != "off":
            return _print_plan(config, run_config)
        announce(*(f"Note: {note}." for note in notes))
        return train(config, run_config, words)
    except KeyboardInterrupt:  # later ones are answered by the run, which saves itself
        print("\nInterrupted while starting; nothing was learned or saved.", file=sys.stderr)
        return 130
    except (TaskError, ModelError, RunExistsError, RunLockedError, CheckpointError) as error:
        return _refuse(error)


def _refuse(error: Exception | str) -> int:
    if is_first_process():
        print(f"error: {error}", file=sys.stderr)
    return 2


def _print_plan(config: TrainConfig, run_config: RunConfig) -> int:
    """Print the memory plan after the checks of a start; return 0 if the run fits, else 1."""
    from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS
    from fctncalling.training.prepare_run import check_model_name
    from fctncalling.training.rollouts.choose_rollout import check_rollout
    from fctncalling.training.task_setup import make_task_setup
    from fctncalling.training.teams import team_roles

    check_rollout(config, run_config)
    if not Path(config.model_name_or_path or ".").expanduser().is_dir():
        check_model_name(config)  # of a folder config.json is enough
    roles: tuple[str, ...] = ()
    # tasks and team are read for these
    if config.roles_have_own_weights or config.team_critic == "central":
        make_env = make_task_setup(config, run_config).make_env
        roles = team_roles(config, make_env, SINGLE_PROCESS)
    plan = import_laboratory_module("memory_plan")
    exit_code: int = plan.print_plan(config, run_config, roles)
    return exit_code


def parse_settings(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line into settings, filling in files, presets and defaults."""
    return parse_command_line(words).settings


def parse_command_line(words: Sequence[str]) -> CommandLine:
    """Parse a command line; SettingError for a file of --config that cannot be."""
    return layer_settings(vars(build_parser().parse_args(words)))


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of `train`, with a flag for every setting that has one."""
    embedded = " ".join(
        f"--{name} {format_value(value)}" for name, value in EMBEDDED_MODEL_DEFAULTS.items()
    )
    page = (__doc__ or "").replace("{embedded}", textwrap.fill(embedded.replace('"', ""), 100))
    description, _, epilog = page.partition("{flags}\n\n")
    parser = OneLineParser(
        "fctncalling train",
        usage="fctncalling train [--FLAG VALUE ...]",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.names_elsewhere = NAMES_ELSEWHERE
    parser.former_flags = FORMER_FLAGS
    shown = "Show the basic settings."
    basic = ("options", BASIC)
    parser.add_argument("-h", "--help", action=BasicHelpAction, nargs=0, const=basic, help=shown)
    parser.add_argument("--help-all", action="help", help="Show every flag.")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="Take settings from a YAML or JSON file, or from a run's config.json; flags of the "
        "command line come before them.",
    )
    add_arguments(parser, TrainConfig, RunConfig)
    return parser


def train(config: TrainConfig, run_config: RunConfig, words: Sequence[str] = ()) -> int:
    """Train by the settings, evaluating before and after; return the exit code.

    Return 0, 1 if a NaN or lost workers ended it, 2 if its reward did, 130 where Ctrl-C did.
    """
    from fctncalling.algorithms.generation.engine_api import RolloutError
    from fctncalling.algorithms.run.checkpoint import CheckpointError
    from fctncalling.training.prepare_run import prepare_run

    run = prepare_run(config, run_config)
    progress = Progress(config.num_updates, run.counters.updates, shown=run.processes.is_first)
    profiling: Any = nullcontext()
    if run_config.profile and run.processes.is_first:
        profiling = import_laboratory_module("profiler").run_profiler(run)
    with run.interruption, profiling as profiler:
        try:
            with closing(progress):
                run_loop(run, progress, profiler)
            write_run_report(run, run_config)
        except KeyboardInterrupt:
            announce(
                f"\nInterrupted after {progress_text(run)}; saved {run.save()}. Go on with:\n",
                f"  {command_to_resume(words, run.processes.count)}\n",
            )
            return 130
        except RewardError as error:
            print(f"error: after {progress_text(run)}: --{error}", file=sys.stderr)
            return 2
        except (FloatingPointError, RolloutError, CheckpointError, OSError) as error:
            made, text = progress_text(run), str(error)
            if isinstance(error, RolloutError):
                text += (
                    f"\nSaved {run.save()}; mend it, then the same command with --resume goes on."
                )
            elif isinstance(error, OSError):
                text = (
                    f"{run.log.folder} cannot be written to ({error}). Mend it, then --resume goes "
                    "on from the last checkpoint."
                )
            print(f"error: after {made}: {text}", file=sys.stderr)
            return 1
        finally:
            run.close()
    return 0


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
