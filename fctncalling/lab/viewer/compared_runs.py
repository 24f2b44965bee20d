"""Several runs side by side: rates by category, tasks gained and lost, settings that differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fctncalling.lab.viewer.page_data import survey_episodes
from fctncalling.lab.viewer.run_files import EpisodeLines, LoadedRun, Record, episode_files

MAX_TASKS = 100_000
"""Tasks whose outcomes are compared."""
MAX_NAMED = 200
"""Tasks gained or lost that a page names."""


def compared_runs(runs: Sequence[LoadedRun]) -> Record:
    """Return what a page says of several runs.

    Of each the last greedy evaluation, else the episodes that its page would show.
    """
    judged = [_judged(run) for run in runs]
    rates = [_success_by_task(run) for run in judged]
    names = sorted({name for run in runs for name in run.config})
    differing = [
        name for name in names if any(_value(run, name) != _value(runs[0], name) for run in runs)
    ]
    return {
        "titles": [str(run.path) for run in runs],
        "files": [run.episodes_file.name for run in judged],
        "tallies": [survey_episodes(run, 1).tally for run in judged],
        "changes": [_changes(rates[0], each) for each in rates[1:]],
        "settings": [[name, *(_value(run, name) for run in runs)] for name in differing],
        "metrics": [_last_metrics(run) for run in runs],
    }


def _judged(run: LoadedRun) -> LoadedRun:
    """Return the run with its last greedy evaluation as episodes, if there is one."""
    files = episode_files(run.path) if run.folder is not None else []
    greedy = [(update, path) for phase, update, path in files if phase == "greedy"]
    if not greedy:
        return LoadedRun(run.path, run.kind, run.episodes, run.episodes_file)
    path = greedy[-1][1]
    return LoadedRun(run.path, run.kind, EpisodeLines(path, []), path)


def _success_by_task(run: LoadedRun) -> dict[str, float]:
    """Return the share of success of each task's valid episodes."""
    counts: dict[str, list[bool]] = {}
    for record in run.episodes:
        task = str(record.get("task_id", record.get("id", "")))
        if not record.get("invalid") and (task in counts or len(counts) < MAX_TASKS):
            counts.setdefault(task, []).append(bool(record.get("success", record.get("valid"))))
    return {task: sum(each) / len(each) for task, each in counts.items()}


def _changes(first: dict[str, float], other: dict[str, float]) -> Record:
    """Return which tasks that both played another run solves more, or less, often."""
    both = [task for task in first if task in other]
    gained = [task for task in both if other[task] > first[task]]
    lost = [task for task in both if other[task] < first[task]]
    return {
        "both": len(both),
        "num_gained": len(gained),
        "num_lost": len(lost),
        "gained": gained[:MAX_NAMED],
        "lost": lost[:MAX_NAMED],
    }


def _value(run: LoadedRun, name: str) -> Any:
    value = run.config.get(name)
    return value if isinstance(value, str | int | float | None) else str(value)


def _last_metrics(run: LoadedRun) -> Record:
    """Return the last value of each metric that is no category's."""
    found: Record = {}
    for line in run.metrics:
        numbers = {key: value for key, value in line.items() if isinstance(value, int | float)}
        found |= {key: value for key, value in numbers.items() if key.count("/") < 2}
    return found
