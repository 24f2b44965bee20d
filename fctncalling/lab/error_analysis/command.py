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
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

from fctncalling.cli.score.answer_judge import (
    AnswerJudge,
    UnreadAnswers,
    disputed_line,
    truth_fault,
)
from fctncalling.cli.score.readings import Reading, ReadingFlags, add_reading_arguments
from fctncalling.cli.score.results import RecordedAnswer, RecordedAnswers
from fctncalling.cli.score.score_files import steps_of_messages
from fctncalling.cli.shared.jsonl_records import InputError, with_progress_bar
from fctncalling.cli.shared.output import align_rows
from fctncalling.cli.shared.parser import add_flag, add_json_switch
from fctncalling.cli.shared.task_finder import TaskFinder
from fctncalling.cli.shared.tool_flags import (
    USUAL_TASKS,
    TaskTools,
    add_dataset_argument,
    add_tool_arguments,
)
from fctncalling.data.categories import ALIASES
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.judging.strict import LENIENCIES, strict_verdict
from fctncalling.evaluation.agents.agent import CONTEXT_OVERFLOW, INFERENCE_ERROR
from fctncalling.lab.error_analysis import CategoryReport, diagnose

MAX_CAUSES = 6
"""Causes of a category that are shown with examples; the others are named."""
_WIDTH = 100


def report_text(models: Mapping[str, Mapping[str, Any]], num_invalid: int) -> str:
    """Return the reports of every model and category, each with its commonest cause first."""
    lines: list[str] = []
    if sum(map(len, models.values())) > 1:
        lines += [*starmap(_summary, models.items()), "", _overview(models), ""]
    for model, categories in models.items():
        for category, report in categories.items():
            lines += [*_category(f"{category} ({model})", report), ""]
    if num_invalid:
        lines.append(f"{num_invalid} answers are marked invalid (infrastructure) and left out.")
    return "\n".join(lines).rstrip()


def _overview(models: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of all categories with the commonest cause of each."""
    head = ["category", "answers", "official", "strict", "lenient", "commonest cause"]
    reports = [report for each in models.values() for report in each.values()]
    if not all(report["is_official"] for report in reports):
        head[2] = "as read"
    rows = []
    for model, categories in models.items():
        for category, report in categories.items():
            keys = ("valid", "strict", "lenient")
            rates = [f"{100 * report['rates'][key]:.1f} %" for key in keys]
            main = next(iter(report["causes"]), None)
            cause = f"{main['cause']} {100 * main['share']:.0f} %" if main else "-"
            name = f"{category} ({model})" if len(models) > 1 else category
            rows.append([name, str(report["answers"]), *rates, cause])
    width = max(len(row[-1]) for row in (head, *rows))
    return align_rows([[*row[:-1], row[-1].ljust(width)] for row in (head, *rows)])


def _summary(model: str, categories: Mapping[str, Any]) -> str:
    """Return a line on all categories of a model: each cause's share of all failures."""
    reports = categories.values()
    answers, failed = (sum(report[key] for report in reports) for key in ("answers", "failed"))
    counts: Counter[str] = Counter()
    for cause in (cause for report in reports for cause in report["causes"]):
        counts[cause["cause"]] += cause["count"]
    shares = [
        {"name": cause, "count": count, "share": count / failed}
        for cause, count in counts.most_common()
    ]
    told = f"; the failures: {_shares(shares)}" if shares else ""
    text = f"{model}: {answers - failed} of {answers} answers right{told}"
    return textwrap.fill(text, _WIDTH, subsequent_indent="  ")


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
    if count := report["inference_errors"]:
        yield f"  inference error: {count} of the answers; the model was not asked: run these again"
    yield from (f"  {line}" for line in report["disputed"])
    for name, count in report["forgiven"].items():
        words = LENIENCIES.get(name.removeprefix("strict:"), "")
        yield f"  right, but forgiven: {name} {count} ({words})"
    for number, cause in enumerate(report["causes"][:MAX_CAUSES], 1):
        yield from _cause(number, cause, failed)
    if others := report["causes"][MAX_CAUSES:]:
        yield f"  others: {_counts({each['cause']: each['count'] for each in others})}"
    if failed:
        yield f"  rules that failed first: {_shares(report['rules'])}"
    if report["complaints"]:
        yield f"  what was said: {_shares(report['complaints'])}"


def _cause(number: int, cause: Mapping[str, Any], failed: int) -> Iterator[str]:
    mended = (cause["passes_with_form_mended"], cause["passes_with_types_mended"])
    right = next((f", {count} of them pass once that is mended" for count in mended if count), "")
    yield (
        f"  {number}. {cause['cause']}: {cause['count']} of {failed} failures "
        f"({100 * cause['share']:.1f} %){right}"
    )
    for line in textwrap.wrap(f"change: {cause['cure']}", _WIDTH - 5):
        yield f"     {line}"
    if max(cause["where"].values(), default=0) > 1:
        yield f"     most often: {_counts(cause['where'])}"
    if cause["turns"]:
        turns = {f"turn {turn}": count for turn, count in cause["turns"].items()}
        yield f"     first failing: {_counts(turns)}"
    for example in cause["examples"]:
        where = f" ({', '.join(example['where'][:3])})" if example["where"] else ""
        yield f"     {example['id']}{where}: {_shown(example['answer'].strip()) or '(empty)'}"
        if example["turn"] is not None:
            yield f"       rule: {example['error_type']}: {_one_line(example['message'])}"
        if example["nearest"] is not None:
            yield f"       would pass: {_shown(example['nearest'])}"
        if example["causes"][1:]:
            yield f"       then: {', '.join(example['causes'][1:])}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _shares(shares: Sequence[Mapping[str, Any]]) -> str:
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
    """Report on every category; return 0, or 2 if too many answers cannot be read."""
    report, unread = diagnosed_answers(args)
    as_text = report_text(report["models"], report["invalid"])
    print(json.dumps(report, indent=2) if args.json else as_text)
    return unread.report()


def diagnosed_answers(args: argparse.Namespace) -> tuple[dict[str, Any], UnreadAnswers]:
    """Diagnose the answers of the arguments: return the report as JSON, and who was not read.

    Raises InputError where nothing can be said.
    """
    flags, tools = ReadingFlags.of(args), TaskTools(args)
    judge = AnswerJudge(flags, tools)
    finder = TaskFinder(args.dataset_path, tools.given)
    wanted = {ALIASES.get(name) or name for name in args.category}
    reports: Reports = {}
    readings: dict[tuple[str, str], Reading] = {}
    num_invalid = 0
    answers = RecordedAnswers(args.result, flags)
    answers.require_libraries(wanted)
    answers.print_notes()
    for answer in with_progress_bar(answers, "diagnosing", "answer"):
        results = answer.results
        if wanted and results.category not in wanted:
            continue
        if answer.is_invalid:
            num_invalid += 1
            continue
        categories = reports.setdefault(results.model, {})
        report = categories.setdefault(results.category, CategoryReport(args.examples))
        readings[results.model, results.category] = results.reading
        _add(report, answer, finder, judge)
    judged = [each for model in reports.values() for each in model.values()]
    if not any(each.num_judged for each in judged):
        raise InputError(_nothing(args, judged, num_invalid))
    found: dict[str, Any] = {
        model: {
            category: {
                **each.as_json(),
                "read_by": readings[model, category].words(),
                "is_official": readings[model, category].is_official,
                "disputed": disputed_line(each.faulty_truths),
            }
            for category, each in categories.items()
        }
        for model, categories in reports.items()
    }
    return {"models": found, "invalid": num_invalid}, judge.unread


def _add(
    report: CategoryReport, answer: RecordedAnswer, finder: TaskFinder, judge: AnswerJudge
) -> None:
    """Diagnose one answer.

    Where tools of ours fail, or no checker judges it, it is counted apart.
    """
    results, line = answer.results, answer.line
    task = finder.find_task(line)
    failure = "context overflow" if line.record.get(CONTEXT_OVERFLOW) else ""
    if str(line.record.get("result")).startswith(INFERENCE_ERROR.strip()):
        failure = "inference error"
        report.num_inference_errors += 1
    try:
        task, response, verdict, classes = judge.judged(answer, task, finder.path)
        task, strict = results.reading.task(task), None
        found = diagnose(
            task,
            response,
            results.form,
            verdict=verdict,
            extra_tools=classes,
            failure=failure,
        )
        if not verdict.valid and (known := truth_fault(task, results.form)):
            report.faulty_truths[task.id] = known
        if verdict.valid:
            steps = steps_of_messages(task, response, results.form)
            strict = strict_verdict(task, steps, verdict).error_type
    except (InputError, InfrastructureError, LookupError, ValueError, ImportError) as error:
        ours = isinstance(error, InputError)
        fault = error if ours else results.fault(line, f"cannot be judged: {error}")
        report.add_not_judged(str(fault))
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
