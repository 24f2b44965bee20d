"""Lint tasks: replay every ground truth as an answer and report tasks that are impossible, broken
or suspicious.

Impossible: the official checker accepts no answer that the ground truth allows. Broken: the truth's
own calls are none that a model could make (broken syntax, an unknown function or argument), so that
only an answer which fails alike is accepted. Suspicious: an answer is accepted in an odd way only
(one form, one spelling, one order), the truth's own calls fail, or truth and function docs
contradict each other. Exit code 1 if a task is impossible or, without --impossible, broken.

example:
  fctncalling lint --dataset_path data/bfcl/BFCL_v4_live_simple.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fctncalling.cli.shared.jsonl_records import InputError, with_progress_bar
from fctncalling.cli.shared.task_finder import use_sibling_long_context_tables
from fctncalling.cli.shared.tool_flags import TaskTools, add_tool_arguments
from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.categories import UnsupportedCategory
from fctncalling.data.errors import TaskError
from fctncalling.data.paths import official_data_folder
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.lab.lint.lint_rules import Finding, lint_task


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    parser.add_argument(
        "--dataset_path",
        type=Path,
        nargs="+",
        metavar="PATH",
        help=f"task files, or folders of BFCL_*.json files; default: {official_data_folder()}",
    )
    add_tool_arguments(parser)
    parser.add_argument("--impossible", action="store_true", help="report impossible tasks only")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    """Lint every task.

    Return 0, 1 if one is impossible or broken, 2 if tasks cannot be read or their tools cannot run.
    """
    paths: list[Path] = args.dataset_path or [official_data_folder()]
    try:
        if not args.dataset_path and not paths[0].is_dir():
            raise InputError(
                "no official data is here: get it by import-bfcl, or name a file by --dataset_path"
            )
        linter = Linter(TaskTools(args))
        found = [finding for path in paths for finding in linter.findings(path)]
        if not linter.num_tasks:
            raise InputError(f"{', '.join(map(str, paths))}: no task in it")
    except (
        InputError,
        TaskError,
        ToolDefinitionError,
        LookupError,
        InfrastructureError,
        OSError,
    ) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    impossible = [finding for finding in found if finding.severity == "impossible"]
    shown = impossible if args.impossible else found
    if args.json:
        print(
            json.dumps(
                {**linter.counts(), "findings": [dataclasses.asdict(each) for each in shown]},
                indent=2,
            )
        )
    else:
        _show(shown, linter)
    return 1 if any(finding.severity != "suspicious" for finding in shown) else 0


class Linter:
    """Linter of tasks one by one, with counts."""

    def __init__(self, tools: TaskTools) -> None:
        self._tools = tools
        self.num_tasks = 0
        self._unjudged: Counter[str] = Counter()
        self._ids = set[str]()

    def findings(self, path: Path) -> Iterator[Finding]:
        """Yield the findings on each task of a file or folder.

        Categories that cannot be judged are counted.
        """
        use_sibling_long_context_tables(path)
        tasks = iter_tasks(path, self_documented=self._tools.given)
        for task in with_progress_bar(tasks, f"linting {path.name}", "task"):
            self.num_tasks += 1
            if task.id in self._ids:
                yield Finding(
                    task.id, task.category, "suspicious", "id_twice", "another task has the same id"
                )
            self._ids.add(task.id)
            try:
                yield from lint_task(
                    self._tools.with_docs(task, path), self._tools.classes_for((task,), path)
                )
            except UnsupportedCategory:
                self._unjudged[task.category] += 1

    def counts(self) -> dict[str, object]:
        """Return how many tasks were linted, and of which categories none could be judged."""
        return {"tasks": self.num_tasks, "unjudged": dict(self._unjudged)}


def _show(found: list[Finding], linter: Linter) -> None:
    for each in found:
        print(f"{each.severity}  {each.id}  {each.rule}: {each.message}")
    counts = Counter((each.severity, each.rule) for each in found)
    print(
        ", ".join(f"{number} {severity} ({rule})" for (severity, rule), number in counts.items())
        or "nothing found"
    )
    totals = linter.counts()
    print(
        f"{totals['tasks']} tasks"
        + (f", not judged: {totals['unjudged']}" if totals["unjudged"] else "")
    )
