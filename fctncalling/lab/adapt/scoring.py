"""Scoring within its share of the minutes: of too many requests a drawn part is asked."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.data.categories import WITHOUT_ANSWER, category_of_id
from fctncalling.lab.adapt.adapt_settings import AdaptSettings
from fctncalling.lab.adapt.played import StageAnswers
from fctncalling.lab.adapt.task_files import (
    read_task_entries,
    run_command_in_process,
    turn_step_limit,
    write_entries,
)

CONCURRENCY = "16"
SCORING_SHARE = 1 / 3  # of the minutes, all scores together
BASE_SHARE = 0.6  # of that; the base model's answers are the longest
FIRST, GROWTH = 8, 3  # requests that are timed first; how many times more are asked next
Play = Callable[[Path, Path], int]
"""(file of tasks, file of answers) -> exit code; what is answered already is not asked again."""


def play_tasks(
    files: Mapping[str, Path],
    part: Path,
    drawn: Path,
    play: Play,
    *,
    seconds: float = math.inf,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Play as many tasks of files as fit into the seconds; return the exit code.

    A file's answers go to `part`, under its name. The first few requests are timed, then up to
    three times as many are asked, and so on, while the time that they took leaves room; of each
    file the same share, drawn by the seed and written to `drawn`.
    """
    tasks = {name: _in_drawn_order(read_task_entries(file), seed) for name, file in files.items()}
    total = sum(map(len, tasks.values()))
    whole = seconds == math.inf or not all(_is_whole(it) for each in tasks.values() for it in each)
    started, asked, size = clock(), 0, total if whole else FIRST
    while asked < total and size > 0:
        begun, now = clock(), min(total, asked + size)
        for name, file in files.items():
            if now < total:
                number = math.ceil(now * len(tasks[name]) / total)
                file = write_entries(drawn / f"{name}.jsonl", tasks[name][:number])
            if code := play(file, part / f"{name}.jsonl"):
                return code
        took, left = clock() - begun, started + seconds - clock()
        fitting = (now - asked) * left / max(took, 1e-9)
        asked, size = now, int(min(GROWTH * now, fitting)) if left > took else 0
    return 0


def _in_drawn_order(tasks: Sequence[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Return tasks in an order that depends on their texts and the seed alone."""
    marks = [
        hashlib.sha256(f"{seed} {json.dumps(each['question'])}".encode()).digest() for each in tasks
    ]
    return [task for _, task in sorted(zip(marks, tasks, strict=True), key=lambda pair: pair[0])]


def _is_whole(task: Mapping[str, Any]) -> bool:
    """Whether a task can be played from another file: its truth is no other file's."""
    return "ground_truth" in task or category_of_id(str(task["id"])) in WITHOUT_ANSWER


def answered_files(
    files: Mapping[str, Path], answers: StageAnswers, folder: Path
) -> dict[str, Path]:
    """Return task files restricted to answered tasks, rewritten if any are missing.

    All files where none was.
    """
    found: dict[str, Path] = {}
    for name, file in files.items():
        ids, tasks = {each["id"] for each in getattr(answers, name)}, read_task_entries(file)
        known = [each for each in tasks if each["id"] in ids]
        if known:
            new = folder / f"answered_{name}.jsonl"
            found[name] = file if len(known) == len(tasks) else write_entries(new, known)
    return found or dict(files)


def answered_by_all(stages: Mapping[str, StageAnswers]) -> dict[str, StageAnswers]:
    """Return the answers of each stage to the tasks that all of them answered."""
    kinds = ("held_out", "test")
    found: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in stages}
    for kind in kinds:
        answers = {name: getattr(each, kind) for name, each in stages.items()}
        ids = [{it["id"] for it in each} for each in answers.values()]
        for name, each in answers.items():
            common = set.intersection(*ids)
            found[name][kind] = [it for it in each if it["id"] in common]
    return {name: StageAnswers(**each) for name, each in found.items()}


def run_agent(settings: AdaptSettings, agent: Sequence[str]) -> Play:
    """Return a function that plays tasks with an agent of `fctncalling run`."""

    def play(file: Path, output: Path) -> int:
        words = ["run", "--dataset_path", os.fspath(file), "--output", str(output), *agent]
        words += ["--allow_task_tools", "--concurrency", CONCURRENCY]
        words += ["--max_steps_per_turn", str(turn_step_limit(settings))]
        return run_command_in_process([*words, "--resume"] if output.exists() else words)

    return play
