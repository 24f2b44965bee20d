"""Check a model folder, tasks, answers or a run folder; report faults and their cures.

What PATH is is found by its files. A model is examined as by `doctor`; tasks are linted, and
degenerate policies play some of them, as by `lint` and `canaries`; failed answers are diagnosed as
by `why`; the logged episodes of a run are played again as by `replay`. One line a finding: ok, note
(spoils nothing), FAULT or ? (could not be checked). Exit code 0 where all is sound, 1 for a fault,
2 if something could not be checked or read.

example:
  fctncalling check my_tasks.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fctncalling.cli.score.readings import add_reading_arguments
from fctncalling.cli.score.results import is_result_tree
from fctncalling.cli.score.run_episodes import read_answers
from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.cli.shared.parser import add_flag, add_json_switch, add_switch
from fctncalling.cli.shared.tool_flags import TaskTools, add_dataset_argument, add_tool_arguments
from fctncalling.lab.canaries import ALL, canary_report
from fctncalling.lab.doctor.command import examined_model, table_lines
from fctncalling.lab.doctor.finding import HealthCheck, exit_code, fault, note, sound, unchecked
from fctncalling.lab.error_analysis.command import diagnosed_answers
from fctncalling.lab.lint import Linter
from fctncalling.lab.replay import replay_logs

MAX_SHOWN = 20
"""Differences of replayed episodes that are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    parser.add_argument("path", metavar="PATH", help="folder of a model or a run, tasks, answers")
    add_dataset_argument(parser, "those that answers or a run name; of a model the embedded ones")
    limit = "tasks of a category that degenerate policies play; default: %(default)s"
    add_flag(parser, "--limit", int, "N", limit, 50)
    add_switch(parser, "--quick", "load no weights of a model")
    add_reading_arguments(parser)
    add_tool_arguments(parser)
    add_json_switch(parser)


def run(args: argparse.Namespace) -> int:
    """Check the path; return 0, 1 for a fault, 2 if something could not be checked."""
    kind = kind_of(args.path)
    findings = list(CHECKS[kind](args))
    if args.json:
        report = {"path": args.path, "kind": kind, "exit_code": exit_code(findings)}
        print(json.dumps({**report, "findings": [each.as_json() for each in findings]}, indent=2))
    else:
        print("\n".join(table_lines(f"{args.path} ({kind})", findings)))
    return exit_code(findings)


def kind_of(name: str) -> str:
    """Return the kind of a path: "model", "tasks", "answers" or "run"; InputError for others."""
    path = Path(name)
    if path.is_dir():
        if (path / "episodes").is_dir():
            return "run"
        if is_result_tree(path):
            return "answers"
        return "model" if (path / "config.json").is_file() else "tasks"
    if is_result_tree(path):
        return "answers"
    if path.is_file() and _holds_answers(path):
        return "answers"
    if path.is_file() or path.name.startswith("BFCL_"):  # found among the official ones
        return "tasks"
    raise InputError(
        f"{name}: there is no such file or folder: expected a folder of a model or a run, a task "
        "file, or .jsonl of answers"
    )


def _holds_answers(path: Path) -> bool:
    try:
        first = next(read_answers(path), None)
    except InputError:  # an array, say
        return False
    return first is not None and "response" in first.record


def _check_model(args: argparse.Namespace) -> Sequence[HealthCheck]:
    unset = dict.fromkeys(("chat_template", "adapter", "vllm_url", "max_episode_tokens"))
    tasks = next(iter(args.dataset_path or ()), None)
    given = {**vars(args), **unset, "model": args.path, "dataset_path": tasks}
    return examined_model(argparse.Namespace(**given)).findings


def _check_tasks(args: argparse.Namespace) -> Iterator[HealthCheck]:
    path = Path(args.path)
    linter = Linter(TaskTools(args))
    for each in linter.lint([path]):
        yield replace(each, message=f"{each.figures['id']}: {each.message}")
    counts = linter.counts()
    yield sound("lint", f"{counts['tasks']} tasks were linted", **counts)
    given = {**vars(args), "dataset_path": path, "seed": 0}
    played, report = canary_report(argparse.Namespace(**given))
    for task_id, why in report["unsolved"].items():
        yield fault("oracle", f"{task_id}: the ground truth fails as an answer: {why}")
    for task_id, why in report["official_faults"].items():
        yield note("oracle", f"{task_id}: a known fault of BFCL, which nobody solves: {why}")
    rates = {name: rate for name, rate in report["success"][ALL].items() if rate is not None}
    told = ", ".join(f"{name} {100 * rate:.1f} %" for name, rate in rates.items())
    yield sound("canaries", f"of {len(played)} tasks solve: {told}", **rates)


def _check_answers(args: argparse.Namespace) -> Iterator[HealthCheck]:
    given = {**vars(args), "result": Path(args.path), "category": [], "examples": 1, "form": None}
    report, unread = diagnosed_answers(argparse.Namespace(**given))
    for model, categories in report["models"].items():
        for category, each in categories.items():
            right, answers = each["answers"] - each["failed"], each["answers"]
            yield sound(category, f"{model}: {right} of {answers} answers are right")
            for cause in each["causes"]:
                message = (
                    f"{model}: {cause['cause']}: {cause['count']} of {each['failed']} failures"
                )
                yield note(category, message, cause["cure"])
            if each["not_judged"]:
                message = f"{model}: {each['not_judged']} answers are not judged"
                yield unchecked(category, f"{message}: {each['not_judged_reason']}")
    if report["invalid"]:
        yield note("invalid", f"{report['invalid']} answers are marked invalid and left out")
    for line, is_wrong in unread.doubts():
        yield unchecked("decoder", line) if is_wrong else note("decoder", line)


def _check_run(args: argparse.Namespace) -> Iterator[HealthCheck]:
    logs = sorted(Path(args.path, "episodes").glob("*.jsonl*"))
    unset = dict.fromkeys(("reward", "max_steps_per_turn", "handler"))
    given = {**vars(args), **unset, "input": logs}
    counts, differences = replay_logs(argparse.Namespace(**given))
    for each in differences[:MAX_SHOWN]:
        where = f"{each['at']} ({each['id']}): {each['field']}"
        yield fault("replay", f"{where}: logged {each['logged']}, now {each['now']}")
    same = f"{counts['identical']} logged episodes play out the same, {counts['different']} do not"
    yield sound("replay", f"{same}, {counts['skipped']} were invalid", **counts)


CHECKS: dict[str, Callable[[Any], Iterator[HealthCheck] | Sequence[HealthCheck]]] = {
    "model": _check_model,
    "tasks": _check_tasks,
    "answers": _check_answers,
    "run": _check_run,
}
