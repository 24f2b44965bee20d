"""Task files of an adaptation: forged or the user's, parted into training and held-out tasks."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fctncalling.data.json_stream import read_entries
from fctncalling.lab.adapt.adapt_settings import AdaptError, AdaptSettings
from fctncalling.lab.forge.forge_run import RAN_DRY
from fctncalling.lab.forge.own_api.coverage import COVERAGE_PAGE, SAID
from fctncalling.lab.own_api.api_part import require_offered
from fctncalling.specification.api import SpecificationError

TRAIN, HELD_OUT = "train.jsonl", "held_out.jsonl"
FEWEST_FORGED = 16  # an API that gives fewer is not adapted to
LONG = ("multi_turn", "memory", "web_search")
MULTI_TURN_STEPS, SINGLE_TURN_STEPS = 20, 4


def run_command_in_process(words: Sequence[str]) -> int:
    """Run a command of this project in this process; return its exit code."""
    from fctncalling.cli.command import main

    return main(list(words))


def make_tasks(settings: AdaptSettings, folder: Path, num_tasks: int, num_held_out: int) -> int:
    """Write training and held-out tasks, forged or the user's; return their numbers.

    Forged held-out tasks have phrases and values that no training task has.
    """
    if settings.tasks is not None:
        tasks, held_out = read_task_entries(settings.tasks)[:num_tasks], list[dict[str, Any]]()
    else:
        tasks, held_out = _forged(settings, folder, num_tasks - num_held_out, num_held_out)
    if len(tasks) < 2:
        raise AdaptError(f"{len(tasks)} tasks: expected at least 2 to learn from")
    if held_out:
        write_entries(folder / TRAIN, tasks)
        write_entries(folder / HELD_OUT, held_out)
    else:
        write_split(tasks, min(num_held_out, len(tasks) // 2), folder)
    return len(tasks) + len(held_out)


def coverage_of(folder: Path) -> str:
    """Return the coverage line of a folder's forged tasks; "" if there are none."""
    for page in folder.glob(f"forged_*.jsonl{COVERAGE_PAGE}"):
        if HELD_OUT not in page.name:
            lines = page.read_text(encoding="utf-8").splitlines()
            return next(line for line in lines if line.startswith(SAID))
    return ""


def _forged(
    settings: AdaptSettings, folder: Path, num_tasks: int, num_held_out: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return forged tasks to learn from, and held-out ones where the API gives enough of them.

    An API too small for so many is asked for half of them, and again; other errors are told once.
    """
    while True:
        file = folder / f"forged_{num_tasks}.jsonl"
        words = ["forge", "--api", settings.spec, "--output", str(file)]
        words += ["--num_tasks", str(num_tasks), "--held_out", str(num_held_out)]
        words += ["--seed", str(settings.seed), "--offered", str(settings.offered)]
        for flag in ("operations", "tags"):
            words += [f"--{flag}", *values] if (values := getattr(settings, flag)) else []
        for flag in ("scenarios", "kinds", "phrases"):
            if (value := getattr(settings, flag)) is not None:
                words += [f"--{flag}", str(value)]
        code = run_command_in_process(words)
        if file.exists():
            break
        if num_tasks < FEWEST_FORGED or code != RAN_DRY:
            raise SystemExit(code)
        num_tasks //= 2
        print(f"{num_tasks} tasks are tried instead", file=sys.stderr)
    tasks, rest = read_task_entries(file), file.with_name(f"{file.name}.held_out.jsonl")
    if not rest.exists():
        return tasks, []
    held_out = read_task_entries(rest)
    texts = {json.dumps(each["question"]) for each in held_out}
    tasks = [each for each in tasks if json.dumps(each["question"]) not in texts]
    return [_without_unsaid(each) for each in tasks], held_out


def _without_unsaid(task: dict[str, Any]) -> dict[str, Any]:
    """Return a task without the arguments that may be left out, "" first among their values.

    A demonstration would write the documented default, and a model then writes it even where
    another value is said.
    """
    truth = task.get("ground_truth")
    if not truth or not all(isinstance(call, dict) for call in truth):
        return task
    calls = [
        {name: {key: [""] if each[:1] == [""] else each for key, each in accepted.items()}}
        for call in truth
        for name, accepted in call.items()
    ]
    return {**task, "ground_truth": calls}


def turn_step_limit(settings: AdaptSettings) -> int:
    """Return the most steps of a turn: few where only questions lengthen it.

    A model that was not taught to call goes on talking with a user who answers.
    """
    for file in (settings.tasks, settings.test):
        entries = [] if file is None else read_task_entries(file)
        if any(str(each["id"]).startswith(LONG) for each in entries):
            return MULTI_TURN_STEPS
    return SINGLE_TURN_STEPS


def require_specification(settings: AdaptSettings) -> None:
    """Raise AdaptError, before anything is loaded or trained, where the SPEC cannot be read."""
    if settings.tasks is None:
        try:
            require_offered(settings.offered)
            settings.api()
        except SpecificationError as error:
            raise AdaptError(str(error)) from None


def read_task_entries(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a task file; AdaptError where it cannot be read."""
    try:
        return [dict(raw) for _, raw in read_entries(path)]
    except (OSError, ValueError) as error:
        raise AdaptError(f"{path}: {error}") from None


def write_split(tasks: Sequence[dict[str, Any]], num_held_out: int, folder: Path) -> None:
    """Write training and held-out tasks: of each category the same share, chosen by their texts.

    Tasks of one text stay together.
    """
    by_category: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for task in tasks:
        mark = hashlib.sha256(json.dumps(task["question"]).encode()).hexdigest()
        by_category[str(task["id"]).rsplit("_", 1)[0]].append((mark, task))
    held_out: set[str] = set()
    for each in by_category.values():
        share = max(1, round(num_held_out * len(each) / len(tasks))) if len(each) > 1 else 0
        held_out |= {mark for mark, _ in sorted(each, key=lambda pair: pair[0])[:share]}
    marked = [pair for each in by_category.values() for pair in each]
    for name, wanted in ((TRAIN, False), (HELD_OUT, True)):
        write_entries(
            folder / name, [task for mark, task in marked if (mark in held_out) is wanted]
        )


def write_entries(file: Path, tasks: Sequence[dict[str, Any]]) -> Path:
    """Write a task file; return its path."""
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{json.dumps(task)}\n" for task in tasks), encoding="utf-8")
    return file
