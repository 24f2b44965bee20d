"""Forge tasks that look and behave like BFCL's, or use your functions; their truths are proven.

No language model is used: function docs, questions and accepted values are composed
from tables; the same seed makes the same file, byte for byte. A task that shares eight
words in a row or its calls with an official one is thrown away and another takes its place. FILE
holds answers and docs; FILE.ledger.jsonl says of every task where it comes from; FILE.report.md,
with --report, sets the figures of forged and official tasks side by side.

--api SPEC makes tasks of your own functions instead: a Python class, an OpenAPI document, an MCP
server, tool schemas; FILE.coverage.md says what they ask for. Exit code 3 where a category has no
further task: a smaller --num_tasks works.

example:
  fctncalling forge --num_tasks 20000 --seed 1 --output forged.jsonl
  fctncalling forge --api my_tools:Thermostat --num_tasks 2000 --output thermostat.jsonl
  fctncalling train --dataset_path forged.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.cli.shared.output import next_command
from fctncalling.cli.shared.tool_flags import MISSING
from fctncalling.data.errors import TaskError
from fctncalling.lab.forge.bfcl_source import FORGED_CATEGORIES, add_bfcl_arguments, bfcl_run
from fctncalling.lab.forge.forge_run import (
    RAN_DRY,
    ForgeFailure,
    ForgeFiles,
    ForgeReport,
    ForgeRun,
    NoFurtherTask,
    OutputConflict,
    TaskSource,
    write_tasks,
)
from fctncalling.lab.forge.own_api.own_forge import add_own_arguments, own_runs
from fctncalling.specification.api import SpecificationError

REFUSALS = (InputError, OutputConflict, SpecificationError, TaskError, ForgeFailure, OSError)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = parser.add_argument
    add("--num_tasks", type=int, default=1000, metavar="N", help="tasks to make; default: 1000")
    names = ", ".join(FORGED_CATEGORIES)
    add(
        "--category",
        nargs="+",
        choices=list(FORGED_CATEGORIES),
        metavar="NAME",
        help=f"categories to make: {names}; default: all but clarify, by their shares (of your "
        "own API all that it allows)",
    )
    seed = "another seed makes other tasks; default: 1"
    add("--seed", type=int, default=1, metavar="N", help=seed)
    jobs = "processes that draw and prove tasks; the file is the same for any N; default: 1"
    add("--jobs", type=int, default=1, metavar="N", help=jobs)
    output = "file (or folder) to write"
    add("--output", type=Path, required=True, metavar="FILE", help=output)
    add("--json", action="store_true", help="print JSON instead of text")
    add_bfcl_arguments(parser.add_argument_group("tasks of BFCL's categories"))
    add_own_arguments(parser.add_argument_group("tasks of your own API"))


def run(args: argparse.Namespace) -> int:
    """Make the tasks; return 0, or 2 or RAN_DRY with one line if they cannot be made."""
    try:
        _require_numbers(args)
        if args.api is not None:
            _refuse_flags(args, add_bfcl_arguments, "BFCL's categories: leave it out with --api")
            reports = list(_forge(own_runs(args), args.jobs))
        else:
            _refuse_flags(args, add_own_arguments, "your own API: expected --api SPEC too")
            reports = list(_forge(iter([(*bfcl_run(args), args.output)]), args.jobs))
        records = [report.record for report in reports]
        shown = records if args.api is not None else records[0]
        text = "\n".join(map(_text, reports))
        print(json.dumps(shown, indent=2) if args.json else text)
    except (*REFUSALS, *MISSING) as error:
        print(f"error: {error}", file=sys.stderr)
        return RAN_DRY if isinstance(error, NoFurtherTask) else 2
    return 0


def _forge(runs: Iterator[tuple[TaskSource, ForgeRun, Path]], jobs: int) -> Iterator[ForgeReport]:
    """Write the tasks of each run, unless they are there, and yield its report."""
    for source, forge_run, output in runs:
        files = ForgeFiles(output, forge_run.record())
        is_new = write_tasks(files, forge_run.tasks(jobs), forge_run.num_tasks)
        yield source.report(files, is_new=is_new)


def _text(report: ForgeReport) -> str:
    """Return the text of a report, ended by the next useful command."""
    if "next" in report.record:
        return report.text
    return f"{report.text}\n{next_command('lint', '--dataset_path', report.record['output'])}"


def _require_numbers(args: argparse.Namespace) -> None:
    """Raise InputError for a number or name that gives no tasks."""
    if args.num_tasks < 1:
        raise InputError(f"--num_tasks: got {args.num_tasks}, expected at least 1")
    if args.jobs < 1 or (args.jobs > 1 and not hasattr(os, "fork")):
        most = "at least 1" if hasattr(os, "fork") else "1, as nothing forks here"
        raise InputError(f"--jobs: got {args.jobs}, expected {most}")
    if args.held_out < 0:
        raise InputError(f"--held_out: got {args.held_out}, expected at least 0")
    if not args.output.name:
        raise InputError(f'--output "{args.output}": expected the name of a file (or folder)')


def _refuse_flags(
    args: argparse.Namespace, add_flags: Callable[[argparse.ArgumentParser], None], owner: str
) -> None:
    """Raise InputError for a flag, of those that `add_flags` adds, that was given."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    for flag, default in vars(parser.parse_args([])).items():
        if getattr(args, flag) != default:
            raise InputError(f"--{flag}: belongs to {owner}")
