"""Play logged episodes again and compare: observations, rewards and verdicts have to be identical.

Reads the output of `run` and the trainer's episodes/*.jsonl (whose settings stand in config.json two folders up). Each
logged message is given to a fresh environment; what comes back is compared field by field, then the answer is judged
anew. Exit code 1 where anything differs.

example:
  evaluate_fctncalling.py replay --input answers.jsonl --data_dir data/bfcl
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from fctncalling.cli.shared.jsonl_records import InputError, read_records, shown_progress
from fctncalling.cli.replay import Replayer
from fctncalling.cli.run.runner import MISSING
from fctncalling.cli.shared.tool_flags import add_tool_arguments
from fctncalling.data.errors import TaskError
from fctncalling.data.paths import official_data_folder
from fctncalling.envs.handlers import HANDLERS, TEXT_HANDLERS
from fctncalling.envs.tools.box.callables import ToolDefinitionError

_TOLD = 20  # differences that are printed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the subcommand takes."""
    add = parser.add_argument
    add(
        "--input",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="logged episodes: .jsonl or .jsonl.gz",
    )
    add(
        "--data_dir",
        type=Path,
        default=official_data_folder(),
        metavar="FOLDER",
        help="folder of BFCL task files; default: %(default)s",
    )
    add(
        "--dataset_path",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="task files of your own; default: as the log's config.json says",
    )
    add_tool_arguments(parser)
    add(
        "--handler",
        metavar="NAME",
        help=f"how calls were written: {', '.join((*HANDLERS, *TEXT_HANDLERS))}; default: as "
        "logged, else auto",
    )
    add(
        "--reward",
        choices=("success", "progress"),
        help="what was paid; default: as logged, else success",
    )
    add(
        "--max_steps_per_turn",
        type=int,
        metavar="N",
        help="the limit that was set; default: as logged, else 20",
    )
    add("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    """Replay every episode; return 0, 1 where one differs, 2 where a log or a task cannot be used."""
    counts, differences = Counter[str](), []
    try:
        for path in args.input:
            replayer = Replayer(path, args)
            for line in shown_progress(read_records(path), f"replaying {path.name}", "episode"):
                found = replayer.differences(line)
                counts["skipped" if found is None else "different" if found else "identical"] += 1
                where = f"{path} line {line.number}"
                differences += [
                    {"at": where, "id": replayer.task_id(line), **each} for each in found or ()
                ]
    except (InputError, TaskError, ToolDefinitionError, *MISSING) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (LookupError, ImportError, OSError, ValueError) as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    if not counts.total():
        print(
            f"error: {', '.join(map(str, args.input))}: no episode in it: expected the output of `run`",
            file=sys.stderr,
        )
        return 2
    if args.json:
        report = {name: counts[name] for name in ("identical", "different", "skipped")}
        print(json.dumps({**report, "differences": differences}, indent=2))
    else:
        for each in differences[:_TOLD]:
            print(
                f"{each['at']} ({each['id']}): {each['field']}: logged {each['logged']}, now {each['now']}"
            )
        print(
            f"{counts['identical']} episodes identical, {counts['different']} different, "
            f"{counts['skipped']} invalid when they were played: not replayed"
        )
    return 1 if counts["different"] else 0
