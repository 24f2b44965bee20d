"""Forge tasks that look and behave like BFCL's, their truths proven by execution.

No language model is used: function docs, questions and accepted values are composed
from tables; the same seed makes the same file, byte for byte. A task that shares eight
words in a row or its calls with an official one is thrown away and another takes its place. FILE
holds answers and docs; FILE.ledger.jsonl says of every task where it comes from; FILE.report.html,
with --report, sets the figures of forged and official tasks side by side.

--api SPEC makes tasks of your own functions instead: a Python class, an OpenAPI document, an MCP
server, tool schemas; FILE.coverage.md says what they ask for.

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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.cli.shared.next_command import next_command
from fctncalling.cli.shared.task_finder import use_sibling_long_context_tables
from fctncalling.cli.shared.tool_flags import MISSING
from fctncalling.data.errors import TaskError
from fctncalling.data.paths import official_data_folder, user_data_folder
from fctncalling.envs.tools.bfcl.long_context import LongContextError, long_context_path
from fctncalling.lab.forge.forge_run import (
    BFCL_CATEGORIES,
    DIALS,
    FORGED_CATEGORIES,
    LONG_CONTEXT,
    ForgeFailure,
    ForgeFiles,
    ForgeRun,
    ForgeSettings,
    LedgerLine,
    OutputConflict,
    write_tasks,
)
from fctncalling.lab.forge.multi_turn import CATEGORIES as MULTI_TURN
from fctncalling.lab.forge.multi_turn.dials import CLASS_WEIGHTS, class_combination_weights
from fctncalling.lab.forge.official_guard import OfficialGuard
from fctncalling.lab.forge.own_api import add_own_arguments, run_own
from fctncalling.lab.forge.report import write_report
from fctncalling.lab.own_api.function_choice import MOST_OFFERED
from fctncalling.specification.api import SpecificationError

REFUSALS = (InputError, OutputConflict, SpecificationError, TaskError, ForgeFailure, OSError)

NO_OFFICIAL_FILES = (
    "no official files are here, so no task is compared with theirs (import-bfcl gets them); the "
    "ledger says so"
)


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
        help=f"categories to make: {names}; default: all but clarify, by their shares",
    )
    seed = "another seed makes other tasks; default: 1"
    add("--seed", type=int, default=1, metavar="N", help=seed)
    jobs = "processes that draw and prove tasks; the file is the same for any N; default: 1"
    add("--jobs", type=int, default=1, metavar="N", help=jobs)
    output = "file (or folder) to write"
    add("--output", type=Path, required=True, metavar="FILE", help=output)
    add(
        "--dials",
        choices=("official", *DIALS),
        default="official",
        help="official: multi-turn plans like BFCL's own; history: plans whose newest message "
        "alone is rarely enough; critical: plans of 6 to 16 actions whose mistakes show late; "
        "default: official",
    )
    add(
        "--apis",
        nargs="+",
        choices=sorted({name for names in CLASS_WEIGHTS for name in names}),
        default=[],
        metavar="NAME",
        help="classes of BFCL that multi-turn tasks may involve, such as TradingBot; default: all",
    )
    layout = "file: one file of JSON Lines; bfcl: a folder as BFCL ships it; default: file"
    add("--layout", choices=("file", "bfcl"), default="file", help=layout)
    official = "official files that no task may resemble; default: where import-bfcl put them"
    add("--official_dir", type=Path, metavar="DIR", help=official)
    report = "write FILE.report.html too: figures of the tasks beside those of the official ones"
    add("--report", action="store_true", help=report)
    add("--json", action="store_true", help="print JSON instead of text")
    add_own_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make the tasks; return 0, or 2 with one line where they cannot be made or written."""
    try:
        if args.num_tasks < 1:
            raise InputError(f"--num_tasks: got {args.num_tasks}, expected at least 1")
        if args.jobs < 1 or (args.jobs > 1 and not hasattr(os, "fork")):
            most = "at least 1" if hasattr(os, "fork") else "1, as nothing forks here"
            raise InputError(f"--jobs: got {args.jobs}, expected {most}")
        if args.held_out < 0:
            raise InputError(f"--held_out: got {args.held_out}, expected at least 0")
        if not args.output.name:
            raise InputError(f'--output "{args.output}": expected the name of a file (or folder)')
        if args.api is not None:
            _refuse_flags_of_bfcl(args)
            return run_own(args)
        _require_api(args)
        _require_multi_turn(args)
        guard = _guard(args.official_dir)
        if guard.folder is not None:
            use_sibling_long_context_tables(guard.folder)
        settings = ForgeSettings(
            args.num_tasks,
            args.seed,
            _categories(args.category),
            args.dials,
            args.layout,
            guard.files or None,
            tuple(sorted(args.apis)),
        )
        files = ForgeFiles(args.output, settings.record())
        text = _forge(files, settings, guard, args.jobs)
        report: dict[str, object] = {"output": str(args.output), **files.summary()}
        if args.report:
            page = args.output.with_name(f"{args.output.name}.report.html")
            write_report(args.output, guard.folder, page, files.summary())
            report["report"] = str(page)
            text += f"\nreport: {page}"
        text += "\n" + next_command("lint", "--dataset_path", args.output)
        print(json.dumps(report, indent=2) if args.json else text)
    except (*REFUSALS, *MISSING) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _refuse_flags_of_bfcl(args: argparse.Namespace) -> None:
    """Raise InputError for a flag that tasks of one's own API do not follow."""
    idle: dict[str, object] = {
        "dials": "official",
        "apis": [],
        "layout": "file",
        "official_dir": None,
        "report": False,
    }
    for flag, default in idle.items():
        if getattr(args, flag) != default:
            raise InputError(f"--{flag}: belongs to BFCL's categories: leave it out with --api")


def _require_api(args: argparse.Namespace) -> None:
    """Raise InputError for a flag of one's own API without the API."""
    files = ("scenarios", "kinds", "phrases", "write_phrases", "from_logs")
    changed = ["offered"] * (args.offered != MOST_OFFERED)
    for flag in (*files, "held_out", "paraphrase", "operations", "tags", *changed):
        if getattr(args, flag):
            raise InputError(f"--{flag}: belongs to your own API: expected --api SPEC too")


def _require_multi_turn(args: argparse.Namespace) -> None:
    """Raise InputError for APIs that categories do not take, or that no task involves alone."""
    if not args.apis:
        return
    others = [name for name in args.category or BFCL_CATEGORIES if name not in MULTI_TURN]
    if others:
        raise InputError(
            f"--apis: belongs to multi-turn categories, got {others[0]}: expected --category "
            "multi_turn_base and the like"
        )
    if not class_combination_weights(args.apis):
        raise InputError(
            f"--apis {' '.join(args.apis)}: no task involves these alone: add TradingBot, "
            "TravelAPI, VehicleControlAPI or GorillaFileSystem"
        )


def _forge(files: ForgeFiles, settings: ForgeSettings, guard: OfficialGuard, jobs: int) -> str:
    """Make the tasks, unless they are there, and return a line on them."""

    def tasks() -> Iterator[tuple[dict[str, Any], LedgerLine]]:
        if not guard.files:
            print(NO_OFFICIAL_FILES, file=sys.stderr)
        yield from ForgeRun(settings, guard).tasks(jobs)

    if not write_tasks(files, tasks(), settings.num_tasks):
        return f"{files.output}: is there already, forged with the same flags"
    thrown = ", ".join(f"{count} that {why}" for why, count in sorted(files.thrown_away.items()))
    return f"{files.num_tasks} tasks in {files.output}; thrown away: {thrown or 'none'}"


def _categories(named: Sequence[str] | None) -> tuple[str, ...]:
    """Return the categories to make: those named, else BFCL's; long context where it can."""
    if named is not None:
        if any(name in LONG_CONTEXT for name in named):
            long_context_path()
        return tuple(name for name in FORGED_CATEGORIES if name in named)
    try:
        long_context_path()
    except LongContextError:
        left_out = ", ".join(LONG_CONTEXT)
        print(f"without BFCL's long-context tables (import-bfcl): no {left_out}", file=sys.stderr)
        return tuple(name for name in BFCL_CATEGORIES if name not in LONG_CONTEXT)
    return BFCL_CATEGORIES


def _guard(folder: Path | None) -> OfficialGuard:
    """Return the guard against the official files of a folder, or of those `import-bfcl` wrote."""
    if folder is not None:
        guard = OfficialGuard.of_folder(folder)
        if not guard.files:
            expected = "expected files named BFCL_*.json, found none"
            raise InputError(f"--official_dir {folder}: {expected}")
        return guard
    for usual in (official_data_folder(), user_data_folder()):
        if usual.is_dir() and (guard := OfficialGuard.of_folder(usual)).files:
            return guard
    return OfficialGuard()
