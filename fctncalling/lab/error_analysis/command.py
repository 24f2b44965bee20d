"""Tell why answers fail: the first rule, its cause and its cure, category by category.

RESULT is the output of `run` or records of `verdicts` (JSON Lines), BFCL's result tree, or one
official result file. Every failed answer is judged again, compared with the ground truth, and put
into a form that passes: the cause is what had to be mended first. "Read leniently" counts answers
whose calls are right once they are written as the decoder wants them; "types mended" those whose
argument types are mended, too. "Official" is said where the model's decoder is known. Exit code 0,
or 2 if RESULT, its tasks or many of its answers cannot be read.

example:
  fctncalling why result/my_model --category multiple --dataset_path data/bfcl
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.cli.score.disputed_truths import disputed_line
from fctncalling.cli.score.readings import Reading, ReadingFlags, add_reading_arguments
from fctncalling.cli.score.results import (
    CategoryAnswers,
    iter_answers,
    read_response,
    v4_entry_id,
)
from fctncalling.cli.score.score_files import steps_of_messages
from fctncalling.cli.score.unread_answers import UnreadAnswers
from fctncalling.cli.shared.jsonl_records import (
    InputError,
    SourceRecord,
    with_progress_bar,
)
from fctncalling.cli.shared.parser import add_flag, add_json_switch, print_error
from fctncalling.cli.shared.task_finder import TaskFinder
from fctncalling.cli.shared.text_table import align_rows
from fctncalling.cli.shared.tool_flags import (
    USUAL_TASKS,
    TaskTools,
    add_dataset_argument,
    add_tool_arguments,
)
from fctncalling.data.categories import ALIASES
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task, Verdict
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.judging.strict import strict_verdict
from fctncalling.evaluation.agents.agent import CONTEXT_OVERFLOW
from fctncalling.lab.error_analysis import CategoryReport, diagnose

MAX_CAUSES = 6
"""Causes of a category that are shown with examples; the others are named."""
_WIDTH = 100


def report_text(models: Mapping[str, Mapping[str, Any]], num_invalid: int) -> str:
    """Return the reports of every model and category, each with its main cause first."""
    lines: list[str] = []
    if sum(map(len, models.values())) > 1:
        lines += [_overview(models), ""]
    for model, categories in models.items():
        for category, report in categories.items():
            lines += [*_category(f"{category} ({model})", report), ""]
    if num_invalid:
        lines.append(f"{num_invalid} answers are marked invalid (infrastructure) and left out.")
    return "\n".join(lines).rstrip()


def _overview(models: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of all categories with the main cause of each."""
    rows = [["category", "answers", "official", "strict", "lenient", "main cause of failure"]]
    reports = [report for each in models.values() for report in each.values()]
    if not all(report["is_official"] for report in reports):
        rows[0][2] = "as read"
    for categories in models.values():
        for category, report in categories.items():
            keys = ("valid", "strict", "lenient")
            rates = [f"{100 * report['rates'][key]:.1f} %" for key in keys]
            main = next(iter(report["causes"]), None)
            cause = f"{main['cause']} {100 * main['share']:.0f} %" if main else "-"
            rows.append([category, str(report["answers"]), *rates, cause])
    width = max(len(row[-1]) for row in rows)
    return align_rows([[*row[:-1], row[-1].ljust(width)] for row in rows])


def _category(title: str, report: Mapping[str, Any]) -> Iterator[str]:
    answers, failed = report["answers"], report["failed"]
    yield f"{title}: {answers - failed} of {answers} answers right"
    rates = report["rates"]
    official = "official" if report["is_official"] else f"as {report['read_by']} reads them"
    shown = {official: "valid", "strict": "strict", "read leniently": "lenient"}
    shown["types mended"] = "types_mended"
    yield "  " + "   ".join(f"{label} {100 * rates[key]:.1f} %" for label, key in shown.items())
    if report["not_judged"]:
        yield f"  not judged: {report['not_judged']}; the first: {report['not_judged_reason']}"
    yield from (f"  {line}" for line in report["disputed"])
    if report["forgiven"]:
        yield f"  right, but forgiven: {_counts(report['forgiven'])}"
    for number, cause in enumerate(report["causes"][:MAX_CAUSES], 1):
        yield from _cause(number, cause, failed)
    if others := report["causes"][MAX_CAUSES:]:
        yield f"  others: {_counts({each['cause']: each['count'] for each in others})}"
    if failed:
        yield f"  rules that failed first: {_shares(report['rules'])}"
        yield f"  what was said: {_shares(report['complaints'])}"


def _cause(number: int, cause: Mapping[str, Any], failed: int) -> Iterator[str]:
    yield (
        f"  {number}. {cause['cause']}: {cause['count']} of {failed} failures "
        f"({100 * cause['share']:.1f} %){_right_otherwise(cause)}"
    )
    for line in textwrap.wrap(f"change: {cause['cure']}", _WIDTH - 5):
        yield f"     {line}"
    if cause["where"]:
        yield f"     most often: {_counts(cause['where'])}"
    if cause["turns"]:
        turns = {f"turn {turn}": count for turn, count in cause["turns"].items()}
        yield f"     first failing: {_counts(turns)}"
    for example in cause["examples"]:
        where = f" ({', '.join(example['where'][:3])})" if example["where"] else ""
        yield f"     {example['id']}{where}: {_shown(example['answer']) or '(empty)'}"
        if example["turn"] is not None:
            yield f"       rule: {example['error_type']}: {_one_line(example['message'])}"
        if example["nearest"] is not None:
            yield f"       would pass: {_shown(example['nearest'])}"
        if example["causes"][1:]:
            yield f"       then: {', '.join(example['causes'][1:])}"


def _right_otherwise(cause: Mapping[str, Any]) -> str:
    for name in ("form", "types"):
        if count := cause[f"passes_with_{name}_mended"]:
            return f", {count} of them pass once that is mended"
    return ""


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _shares(shares: list[Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{each['name']} {each['count']} ({100 * each['share']:.1f} %)" for each in shares
    )


def _shown(text: str) -> str:
    """Return an answer on one line.

    Calls of an interface, whose arguments are JSON texts inside JSON, as calls are written.
    """
    try:
        calls = json.loads(text)
        written = [
            f"{name}({', '.join(f'{key}={value!r}' for key, value in json.loads(given).items())})"
            for each in calls
            for name, given in each.items()
        ]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return _one_line(text)
    return _one_line(f"[{', '.join(written)}]")


def _one_line(text: str) -> str:
    """Return a text with its line breaks and other controls spelled, so that it stays on a line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class RecordedAnswer(NamedTuple):
    """One answer as `judge` takes it."""

    results: CategoryAnswers
    line: SourceRecord
    task: Task
    response: Any
    overflowed: bool


def recorded_answers(
    path: Path, finder: TaskFinder, categories: Collection[str], flags: ReadingFlags
) -> Iterator[RecordedAnswer | None]:
    """Yield every answer of the wanted categories (all where there are none).

    None for one that is marked invalid.

    Raises InputError for what cannot be read.
    """
    for results, line in iter_answers(path, flags):
        if categories and results.category not in categories:
            continue
        if line.record.get("invalid") is True:
            yield None
            continue
        named = {**line.record, "category": results.category}
        named["id"] = v4_entry_id(line.field("id", str, "a task's id"))
        task = finder.find_task(SourceRecord(line.path, line.number, named))
        if "result" not in line.record:
            raise results.fault(line, "expected the answer, but there is no such field")
        try:
            response = read_response(results, task, line)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise results.fault(line, f"cannot be read: {error}") from None
        overflowed = bool(line.record.get(CONTEXT_OVERFLOW))
        yield RecordedAnswer(results, line, task, response, overflowed)


Reports = dict[str, dict[str, CategoryReport]]
"""Model -> category -> its report."""

COMMAND = "why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = partial(add_flag, parser)
    add("result", Path, "RESULT", "answers: .jsonl[.gz], result tree or file")
    add("--category", str, "NAME", "these only", [], nargs="+")
    add_dataset_argument(parser, USUAL_TASKS, many=False)
    of_tree = "of a result tree's answers; default: found"
    parser.add_argument("--form", choices=("prompting", "tool_call"), help=of_tree)
    add_reading_arguments(parser)
    add("--examples", int, "N", "answers shown for each cause", 3)
    add_tool_arguments(parser)
    add_json_switch(parser)


def run(args: argparse.Namespace) -> int:
    """Report on every category; return 0, or 2 if nothing can be said, or not as it stands."""
    try:
        tools = TaskTools(args)
        flags = ReadingFlags.of(args)
        unread = UnreadAnswers(flags)
        reports, readings, num_invalid = _reports(args, flags, tools, unread)
        judged = [each for model in reports.values() for each in model.values()]
        if not any(each.num_judged for each in judged):
            raise InputError(_nothing(args, judged, num_invalid))
    except (InputError, TaskError, OSError) as error:
        return print_error(error)
    found: dict[str, Any] = {
        model: {
            category: {
                **each.as_json(),
                "read_by": readings[model, category].words(),
                "is_official": readings[model, category].is_official,
                "disputed": disputed_line(each.failed_tasks),
            }
            for category, each in categories.items()
        }
        for model, categories in reports.items()
    }
    _print(
        json.dumps({"models": found, "invalid": num_invalid}, indent=2)
        if args.json
        else report_text(found, num_invalid)
    )
    return unread.report()


def _print(text: str) -> None:
    """Print a long text; a reader that has seen enough, such as `head`, is no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reports(
    args: argparse.Namespace, flags: ReadingFlags, tools: TaskTools, unread: UnreadAnswers
) -> tuple[Reports, dict[tuple[str, str], Reading], int]:
    """Return the reports, how answers were read, and how many are marked invalid."""
    reports: Reports = {}
    readings: dict[tuple[str, str], Reading] = {}
    num_invalid = 0
    wanted = {ALIASES.get(name) or name for name in args.category}
    finder = TaskFinder(args.dataset_path, tools.given)
    answers = recorded_answers(args.result, finder, wanted, flags)
    for answer in with_progress_bar(answers, "diagnosing", "answer"):
        if answer is None:
            num_invalid += 1
            continue
        results = answer.results
        categories = reports.setdefault(results.model, {})
        report = categories.setdefault(results.category, CategoryReport(args.examples))
        readings[results.model, results.category] = results.reading
        verdict = _add(report, answer, tools, finder.path)
        if verdict is not None:
            raw = answer.line.record["result"]
            unread.add(results.model, answer.task, results.reading, raw, verdict)
    return reports, readings, num_invalid


def _add(
    report: CategoryReport, answer: RecordedAnswer, tools: TaskTools, origin: Path
) -> Verdict | None:
    """Diagnose one answer.

    Where tools of ours fail, or no checker judges it, it is counted apart.
    """
    results = answer.results
    try:
        task = results.reading.task(tools.with_docs(answer.task, origin))
        classes = tools.classes_for((task,), origin)
        found = diagnose(
            task, answer.response, results.form, extra_tools=classes, overflowed=answer.overflowed
        )
        strict = None
        if found.verdict.valid:
            steps = steps_of_messages(task, answer.response, results.form)
            strict = strict_verdict(task, steps, found.verdict).error_type
    except (InfrastructureError, LookupError, ValueError, ImportError) as error:
        report.add_not_judged(str(results.fault(answer.line, f"cannot be judged: {error}")))
        return None
    report.add(task.id, found, strict)
    return found.verdict


def _nothing(args: argparse.Namespace, reports: list[CategoryReport], num_invalid: int) -> str:
    reason = next((each.not_judged for each in reports if each.not_judged), "")
    if reason:
        return reason
    if num_invalid:
        return f"{args.result}: all {num_invalid} answers are marked invalid: run them again"
    names = f" of {', '.join(args.category)}" if args.category else ""
    return f"{args.result}: there are no answers{names}"
