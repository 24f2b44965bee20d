"""Make one offline page of a run: tokens, credit, tools, groups, alarms.

RUN is the folder of a training run, also of one that is going on or has crashed, the output of
`run` (JSON Lines), one file of a run's episodes, or text histories. Token lanes need the run's
token files (fctncalling train --log_tokens_interval). The page loads nothing and needs no
server. Exit code 0, or 2 if RUN cannot be read.

example:
  fctncalling view results/check/embedded/embedded/TPPO --worst 32
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.dataset_flag import USUAL_TASKS, add_dataset_argument
from fctncalling.cli.shared.jsonl_records import InputError, Line
from fctncalling.cli.shared.task_finder import TaskFinder
from fctncalling.cli.shared.tool_flags import TaskTools, add_tool_arguments
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task
from fctncalling.viewer import ViewError, load_run, page_data, write_page

POLL_SECONDS = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="folder of a training run, or .jsonl[.gz] file")
    add("--update", type=int, metavar="N", help="default: the last one with a token file")
    add("--worst", type=int, metavar="N", help="the N episodes of lowest return; default: 64")
    add("--output", type=Path, metavar="FILE", help="default: view.html in RUN, or beside it")
    add("--follow", action="store_true", help="make the page again when the run grows")
    add("--json", action="store_true", help="print JSON instead of text")
    add_dataset_argument(parser, USUAL_TASKS, many=False)
    add_tool_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page; return 0, or 2 if it cannot be made."""
    output: Path = args.output or _default_output(args.run)
    try:
        if args.worst is not None and args.worst < 1:
            raise ViewError(f"--worst {args.worst}: expected at least 1")
        _make(args, output)
        if args.follow:
            _follow(args, output)
    except KeyboardInterrupt:
        if not args.follow:
            raise
    except (ViewError, InputError, TaskError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _make(args: argparse.Namespace, output: Path) -> None:
    loaded = load_run(args.run, args.update)
    data = page_data(loaded, _TaskOfEpisode(args, loaded.config), args.worst)
    size = write_page(output, data)
    for note in loaded.notes:
        print(f"note: {note}", file=sys.stderr)
    count = len(data["episodes"])
    if args.json:
        print(json.dumps({"page": str(output), "episodes": count, "bytes": size}), flush=True)
        return
    print(f"{output}: {count} episodes, {math.ceil(size / 1000):,} kB", flush=True)


def _follow(args: argparse.Namespace, output: Path) -> None:
    """Make the page again after each change, until Ctrl-C; half a file is waited out."""
    seen = _state(args.run, output)
    while True:
        time.sleep(POLL_SECONDS)
        now = _state(args.run, output)
        if now == seen:
            continue
        try:
            _make(args, output)
        except (ViewError, InputError, TaskError, OSError) as error:
            print(f"note: not made again: {error}", file=sys.stderr)
        seen = now


def _state(path: Path, output: Path) -> list[tuple[str, int, int]]:
    """Return size and time of each file that a page is made of."""
    parts = ("episodes/*.jsonl", "tokens/*.npz", "*.jsonl", "*.json")
    files = [each for part in parts for each in path.glob(part)] if path.is_dir() else [path]
    found = []
    for each in sorted(files):
        try:
            status = each.stat()
        except OSError:
            continue  # it was replaced just now
        if each != output:
            found.append((str(each), status.st_size, status.st_mtime_ns))
    return found


def _default_output(path: Path) -> Path:
    if path.is_dir():
        return path / "view.html"
    return path.with_name(f"{path.name.removesuffix('.gz').removesuffix('.jsonl')}.html")


class _TaskOfEpisode:
    """Finds the task of an episode record: the run's own files first, then --dataset_path."""

    def __init__(self, args: argparse.Namespace, config: Mapping[str, Any]) -> None:
        self._tools = TaskTools(args)
        self._run: Path = args.run
        self._finder = TaskFinder(args.dataset_path, self._tools.given)
        paths = [config.get(name) for name in ("dataset_path", "eval_dataset_path")]
        self._tasks: dict[str, Task] = {}
        for path in (Path(str(each)) for each in paths if each):
            if path.exists():
                tasks = load_tasks(path, self_documented=self._tools.given)
                self._tasks |= {task.id: task for task in tasks}

    def __call__(self, record: dict[str, Any]) -> tuple[Task | None, Mapping[str, Any]]:
        task_id = record.get("task_id", record.get("id"))
        try:
            task = self._tasks.get(str(task_id)) or self._found({**record, "id": task_id})
            return task, self._tools.classes_for((task,), self._finder.path)
        except (InputError, TaskError, LookupError, ValueError):
            return None, {}

    def _found(self, record: dict[str, Any]) -> Task:
        return self._finder.task_of(Line(self._run, record["line"], record))
