"""Make one offline page of a run: tokens, credit, tools, groups, alarms.

RUN is the folder of a training run, also of one that is going on or has crashed, the output of
`run` (JSON Lines), one file of a run's episodes, text histories, or answers as `score` takes them:
BFCL's result tree, a part of it, records of `verdicts`; these are judged, failures first. Token
lanes need the run's token files (fctncalling train --log_tokens_interval). --format reads the
rollout dumps of another trainer. The page loads nothing and needs no server. Exit code 0, or 2 if
RUN cannot be read.

example:
  fctncalling view results/check/embedded/embedded/TPPO --worst 32
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fctncalling.cli.score.readings import ReadingFlags, add_reading_arguments
from fctncalling.cli.shared.jsonl_records import InputError, SourceRecord
from fctncalling.cli.shared.output import next_command
from fctncalling.cli.shared.parser import add_flag, add_json_switch, add_switch, print_error
from fctncalling.cli.shared.task_finder import TaskFinder, use_sibling_long_context_tables
from fctncalling.cli.shared.tool_flags import (
    USUAL_TASKS,
    TaskTools,
    add_dataset_argument,
    add_tool_arguments,
)
from fctncalling.data.agentic_tasks import find_agentic_variant
from fctncalling.data.bfcl import load_tasks, resolve_task_path
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task
from fctncalling.lab.viewer import ViewError, compared_runs, load_run, page_data, write_page
from fctncalling.lab.viewer.judged_answers import JudgedAnswers, is_answers
from fctncalling.lab.viewer.page_data import MAX_EPISODES
from fctncalling.lab.viewer.rollout_dumps import FORMATS, load_dump
from fctncalling.lab.viewer.run_files import LoadedRun, runs_below

COMMAND = "view"

POLL_SECONDS = 2.0
MAX_ANSWERS_SHOWN = 1000
"""Episodes on a page of answers: they are short, and every failure is wanted."""
_TASK_SETTINGS = ("dataset_path", "eval_dataset_path")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = partial(add_flag, parser)
    runs = (
        "folder of a training run, or .jsonl[.gz] file; several, or a folder of runs, are "
        "compared; the page is of the first (in a folder the newest)"
    )
    baseline = "RUN that the others are compared with; default: the first, in a folder the oldest"
    dump = "RUN is that trainer's rollout dump, or a folder of them"
    worst = (
        "the N worst episodes: invalid, then of lowest return; default: "
        f"{MAX_EPISODES}, of answers {MAX_ANSWERS_SHOWN:,}"
    )
    add("run", Path, "RUN", runs, nargs="+")
    parser.add_argument("--format", choices=FORMATS, help=dump)
    add("--baseline", Path, "RUN", baseline)
    add("--update", int, "N", "default: the last one with a token file")
    add("--worst", int, "N", worst)
    add("--output", Path, "FILE", "default: view.html in RUN, or beside it")
    add_switch(parser, "--follow", "make the page again when the run grows")
    add_json_switch(parser)
    add_dataset_argument(parser, USUAL_TASKS, many=False)
    add_reading_arguments(parser)
    add_tool_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page; return 0, or 2 if it cannot be made or its answers cannot be read."""
    output: Path = args.output or _default_output(args.run[0])
    try:
        if args.worst is not None and args.worst < 1:
            raise ViewError(f"--worst {args.worst}: expected at least 1")
        for path in args.dataset_path or ():
            found = resolve_task_path(path)
            if not found.exists() and find_agentic_variant(found) is None:
                raise ViewError(f"--dataset_path {path}: there is no such file or folder")
        status = _make(args, output)
        if args.follow:
            _follow(args, output)
        return status
    except KeyboardInterrupt:
        if not args.follow:
            raise
    except (ViewError, InputError, TaskError, OSError) as error:
        return print_error(error)
    return 0


def _make(args: argparse.Namespace, output: Path) -> int:
    paths = args.run if args.format else [run for path in args.run for run in runs_below(path)]
    loaded = _loaded(args, paths[0], args.update)
    task_of = _TaskOfEpisode(args, loaded.config)
    judged = loaded.episodes if isinstance(loaded.episodes, JudgedAnswers) else None
    worst = args.worst or (MAX_ANSWERS_SHOWN if judged else MAX_EPISODES)
    data = page_data(loaded, task_of, worst)
    if loaded.kind in ("training", "answers"):
        files = ["--input", str(loaded.episodes_file.resolve())]
        data["replay"] = shlex.join(["fctncalling", "replay", *files, *task_of.replay_flags()])
    if len(paths) > 1:
        runs = [loaded, *(_loaded(args, path) for path in paths[1:])]
        runs = runs if len(args.run) > 1 else runs[::-1]  # else newest first
        compared = compared_runs(_baseline_first(runs, args.baseline))
        data |= {"compared": compared, "sentence": compared["sentence"]}
    elif args.baseline is not None:
        raise ViewError(f"--baseline {args.baseline}: there is one run alone: {paths[0]}")
    size = write_page(output, data)
    for note in filter(None, [*loaded.notes, task_of.refusal]):
        print(f"note: {note}", file=sys.stderr)
    if args.json:
        count = len(data["episodes"])
        report: dict[str, Any] = {
            "page": str(output),
            "episodes": count,
            "of": data["num_read"],
            "bytes": size,
        }
        if "compared" in data:
            report["baseline"] = data["compared"]["titles"][0]
        print(json.dumps({**report, "sentence": data["sentence"]}), flush=True)
    else:
        print(data["sentence"])
        if "compared" in data:
            pairs = zip(data["compared"]["letters"], data["compared"]["titles"], strict=True)
            print("\n".join(f"{letter}: {title}" for letter, title in pairs))
            print(
                f"{data['compared']['letters'][0]} is the baseline (--baseline RUN chooses another)"
            )
        print(f"{output}: {data['shown']}, {math.ceil(size / 1000):,} kB")
        if (checkpoint := paths[0] / "checkpoints/last").is_dir():
            print(next_command("export", "--checkpoint", checkpoint, "--output", "my_model"))
        elif judged or loaded.kind == "answers":
            print(next_command("why", paths[0], like=args))
        sys.stdout.flush()
    return judged.unread.report() if judged else 0


def _baseline_first(runs: Sequence[LoadedRun], baseline: Path | None) -> list[LoadedRun]:
    """Return the runs with the one of --baseline first; ViewError for none of them."""
    if baseline is None:
        return [*runs]
    chosen = [run for run in runs if run.path.resolve() == baseline.resolve()]
    if not chosen:
        known = ", ".join(str(run.path) for run in runs)
        raise ViewError(f"--baseline {baseline}: expected one of the runs {known}")
    return [*chosen, *(run for run in runs if run is not chosen[0])]


def _loaded(args: argparse.Namespace, path: Path, update: int | None = None) -> LoadedRun:
    if args.format:
        return load_dump(path, args.format, update)
    if not is_answers(path):
        return load_run(path, update)
    tools = TaskTools(args)
    finder = TaskFinder(args.dataset_path, tools.given)
    return JudgedAnswers(path, ReadingFlags.of(args), finder, tools).loaded()


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


def _state(paths: Sequence[Path], output: Path) -> list[tuple[str, int, int]]:
    """Return size and time of each file that a page is made of."""
    parts = ("episodes/*.jsonl", "tokens/*.npz", "*.jsonl", "*.json", "*.parquet")
    runs = [run for path in paths for run in runs_below(path)]
    files = [run for run in runs if not run.is_dir()]
    files += [each for part in parts for run in runs for each in run.glob(part)]
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
    """Finder of an episode record's task: the run's files first, then --dataset_path."""

    def __init__(self, args: argparse.Namespace, config: Mapping[str, Any]) -> None:
        configured = str(config.get("tools") or "").split()
        self._args = argparse.Namespace(
            tools=args.tools or configured,
            tools_seed=args.tools_seed or config.get("tools_seed"),
            allow_task_tools=args.allow_task_tools,
        )
        self._tools = TaskTools(args)
        self._run: Path = args.run[0]
        self._given: list[Path] = args.dataset_path or []
        self._finder = TaskFinder(self._given, self._tools.given)
        self._own_files = _existing(config.get(name) for name in _TASK_SETTINGS)
        self._names_tasks = not config or bool(config.get("dataset_path"))
        self.refusal = ""  # why the tools of the first such task cannot be had
        self._tasks: dict[str, tuple[Task, Path]] = {}
        for path in self._own_files:
            self._tasks |= self._loaded(path)

    def __call__(self, record: dict[str, Any]) -> tuple[Task | None, Mapping[str, Any]]:
        task_id = record.get("task_id", record.get("id"))
        try:
            for path in _existing([record.get("dataset_path")]):
                if path not in self._own_files:
                    self._own_files.append(path)
                    self._tasks |= self._loaded(path)
            own = self._tasks.get(str(task_id))
            task, origin = own or self._found({**record, "id": task_id})
        except (InputError, TaskError, LookupError, ValueError):
            return None, {}
        try:
            return task, self._tools.classes_for((task,), origin)
        except (LookupError, ValueError) as error:
            self.refusal = self.refusal or f"the state of the tools is not shown: {error}"
            return None, {}

    def replay_flags(self) -> list[str]:
        """Return the flags with which `replay` finds the tasks and tools that were found here."""
        files = [*self._given, *(self._own_files if self._names_tasks else ())]
        flags = ["--dataset_path", *(str(path.resolve()) for path in files)] if files else []
        flags += ["--tools", *self._args.tools] if self._args.tools else []
        flags += ["--tools_seed", self._args.tools_seed] if self._args.tools_seed else []
        return flags + ["--allow_task_tools"] * self._args.allow_task_tools

    def _loaded(self, path: Path) -> dict[str, tuple[Task, Path]]:
        use_sibling_long_context_tables(path)
        loaded = load_tasks(path, self_documented=self._tools.given)
        return {task.id: (task, path) for task in loaded}

    def _found(self, record: dict[str, Any]) -> tuple[Task, Path]:
        task = self._finder.find_task(SourceRecord(self._run, record["line"], record))
        return task, self._finder.path


def _existing(paths: Iterable[Any]) -> list[Path]:
    return [path for path in (Path(str(each)) for each in paths if each) if path.exists()]
