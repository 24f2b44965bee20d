"""Tell why answers fail: the first rule, its cause and its cure, category by category.

RESULT is the output of `run` or records of `verdicts` (JSON Lines), BFCL's result tree, or one
official result file. Every failed answer is judged again, compared with the ground truth, and put
into a form that passes: the cause is what had to be mended first. "Read leniently" counts answers
whose calls are right once they are written as the decoder wants them; "types mended" those whose
argument types are mended, too. Exit code 0, or 2 if RESULT or its tasks cannot be read.

example:
  fctncalling why result/my_model --category multiple --dataset_path data/bfcl
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from fctncalling.cli.score.extra_metrics import steps_of
from fctncalling.cli.shared.dataset_flag import USUAL_TASKS, add_dataset_argument
from fctncalling.cli.shared.jsonl_records import InputError, with_progress_bar
from fctncalling.cli.shared.task_finder import TaskFinder
from fctncalling.cli.shared.tool_flags import TaskTools, add_tool_arguments
from fctncalling.data.categories import ALIASES, UnsupportedCategory
from fctncalling.data.errors import TaskError
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.judging.strict import strict_verdict
from fctncalling.lab.error_analysis import CategoryReport, diagnose
from fctncalling.lab.error_analysis.recorded_answers import RecordedAnswer, recorded_answers
from fctncalling.lab.error_analysis.why_text import report_text

Reports = dict[str, dict[str, CategoryReport]]
"""Model -> category -> its report."""

COMMAND = "why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    parser.add_argument(
        "result", type=Path, metavar="RESULT", help="answers: .jsonl[.gz], result tree or file"
    )
    parser.add_argument("--category", nargs="+", default=[], metavar="NAME", help="these only")
    add_dataset_argument(parser, USUAL_TASKS, many=False)
    parser.add_argument(
        "--form",
        choices=("prompting", "tool_call"),
        help="of a result tree's answers; default: found",
    )
    parser.add_argument(
        "--examples", type=int, default=3, metavar="N", help="answers shown for each cause"
    )
    add_tool_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    """Report on every category; return 0, or 2 if nothing can be said."""
    try:
        tools = TaskTools(args)
        reports, num_invalid = _reports(args, tools)
        judged = [each for model in reports.values() for each in model.values()]
        if not any(each.num_judged for each in judged):
            raise InputError(_nothing(args, judged, num_invalid))
    except (InputError, TaskError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found: dict[str, Any] = {
        model: {category: each.as_json() for category, each in categories.items()}
        for model, categories in reports.items()
    }
    _print(
        json.dumps({"models": found, "invalid": num_invalid}, indent=2)
        if args.json
        else report_text(found, num_invalid)
    )
    return 0


def _print(text: str) -> None:
    """Print a long text; a reader that has seen enough, such as `head`, is no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reports(args: argparse.Namespace, tools: TaskTools) -> tuple[Reports, int]:
    """Return the reports, and how many answers are marked invalid."""
    reports: Reports = {}
    num_invalid = 0
    wanted = {ALIASES.get(name) or name for name in args.category}
    finder = TaskFinder(args.dataset_path, tools.given)
    answers = recorded_answers(args.result, finder, wanted, args.form)
    for answer in with_progress_bar(answers, "diagnosing", "answer"):
        if answer is None:
            num_invalid += 1
            continue
        categories = reports.setdefault(answer.results.model, {})
        report = categories.setdefault(answer.results.category, CategoryReport(args.examples))
        _add(report, answer, tools, finder.path)
    return reports, num_invalid


def _add(report: CategoryReport, answer: RecordedAnswer, tools: TaskTools, origin: Path) -> None:
    """Diagnose one answer.

    Where tools of ours fail, or no checker judges it, it is counted apart.
    """
    results = answer.results
    try:
        task = tools.with_docs(answer.task, origin)
        classes = tools.classes_for((task,), origin)
        found = diagnose(
            task,
            answer.response,
            results.form,
            extra_tools=classes,
            overflowed=answer.overflowed,
        )
        strict = None
        if found.verdict.valid:
            steps = steps_of(task, answer.response, results.form)
            strict = strict_verdict(task, steps, found.verdict).error_type
    except (
        UnsupportedCategory,
        InfrastructureError,
        LookupError,
        ValueError,
        ImportError,
    ) as error:
        report.add_not_judged(str(results.fault(answer.line, f"cannot be judged: {error}")))
        return
    report.add(task.id, found, strict)


def _nothing(args: argparse.Namespace, reports: list[CategoryReport], num_invalid: int) -> str:
    reason = next((each.not_judged for each in reports if each.not_judged), "")
    if reason:
        return reason
    if num_invalid:
        return f"{args.result}: all {num_invalid} answers are marked invalid: run them again"
    names = f" of {', '.join(args.category)}" if args.category else ""
    return f"{args.result}: there are no answers{names}"
