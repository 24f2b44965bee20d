"""Lint tasks: replay every ground truth as an answer and report tasks that are impossible or suspicious.

Impossible: the official checker accepts no answer that the ground truth allows. Suspicious: it accepts one in an odd
way only (one form, one spelling, one order), the truth's own calls fail, or truth and function docs contradict each
other. Exit code 1 where a task is impossible.

example:
  evaluate_fctncalling.py lint --dataset_path data/bfcl/BFCL_v4_live_simple.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from fctncalling.checkers import UnsupportedCategory
from fctncalling.cli.records import TaskFolder, shown_progress
from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.errors import TaskError
from fctncalling.data.places import official_data_folder
from fctncalling.data.types import Task
from fctncalling.envs.handlers.execution import InfrastructureError
from fctncalling.lint import Finding, findings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the subcommand takes."""
    parser.add_argument(
        "--dataset_path",
        type=Path,
        nargs="+",
        default=[official_data_folder()],
        help="task files, or folders of BFCL_*.json files; default: %(default)s",
    )
    parser.add_argument("--impossible", action="store_true", help="report impossible tasks only")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    """Lint every task; return 0, 1 where one is impossible, 2 where tasks cannot be read or their tools cannot run."""
    for path in args.dataset_path:
        TaskFolder(path if path.is_dir() else path.parent)  # its long-context tables go before those elsewhere
    linter = Linter()
    try:
        tasks = chain.from_iterable(map(iter_tasks, args.dataset_path))
        found = list(linter.findings(shown_progress(tasks, "linting", "task")))
    except (TaskError, LookupError, InfrastructureError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    impossible = [finding for finding in found if finding.severity == "impossible"]
    shown = impossible if args.impossible else found
    if args.json:
        print(json.dumps({**linter.counts(), "findings": [dataclasses.asdict(each) for each in shown]}, indent=2))
    else:
        _tell(shown, linter)
    return 1 if impossible else 0


class Linter:
    """Lints tasks one by one and counts them."""

    def __init__(self) -> None:
        self._num_tasks = 0
        self._unjudged: Counter[str] = Counter()
        self._ids = set[str]()

    def findings(self, tasks: Iterator[Task]) -> Iterator[Finding]:
        """Yield what is wrong with each task; categories that cannot be judged are counted."""
        for task in tasks:
            self._num_tasks += 1
            if task.id in self._ids:
                yield Finding(task.id, task.category, "suspicious", "id_twice", "another task has the same id")
            self._ids.add(task.id)
            try:
                yield from findings(task)
            except UnsupportedCategory:
                self._unjudged[task.category] += 1

    def counts(self) -> dict[str, object]:
        """Return how many tasks were linted, and of which categories none could be judged."""
        return {"tasks": self._num_tasks, "unjudged": dict(self._unjudged)}


def _tell(found: list[Finding], linter: Linter) -> None:
    for each in found:
        print(f"{each.severity}  {each.id}  {each.rule}: {each.message}")
    counts = Counter((each.severity, each.rule) for each in found)
    print(", ".join(f"{number} {severity} ({rule})" for (severity, rule), number in counts.items()) or "nothing found")
    told = linter.counts()
    print(f"{told['tasks']} tasks" + (f", not judged: {told['unjudged']}" if told["unjudged"] else ""))
