"""Answers to the same task at different updates of a run."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from fctncalling.lab.viewer.episode_entry import episode_entry, member_entry
from fctncalling.lab.viewer.run_files import (
    EPISODE_TYPES,
    LoadedRun,
    Record,
    episode_files,
    read_lines,
)

MAX_ANSWERS = 24
"""Answers to one task that a page holds."""
MAX_EVALUATED = 40
"""Tasks of the evaluation that a page holds besides those it shows..."""
MAX_SURVEYED = 1024
"""...chosen among so many."""


def over_updates(run: LoadedRun, tasks: Collection[str]) -> dict[str, list[Record]]:
    """Return the answers to each of `tasks` and to tasks of the evaluation, in order of updates.

    Of the evaluation's tasks those come first whose outcome or answer changed most often.
    """
    if run.folder is None:
        return {}
    wanted = set(tasks)
    shown: dict[str, list[Record]] = {}
    evaluated: dict[str, list[Record]] = {}
    for phase, update, path in episode_files(run.folder):
        for record in read_lines(path, [], EPISODE_TYPES):
            task = record.get("task_id")
            room = str(task) in evaluated or len(evaluated) < MAX_SURVEYED
            if task not in wanted and not (phase == "greedy" and room):
                continue
            entry = member_entry(episode_entry(record, run))
            entry |= {"phase": phase, "update": update, "id": f"{path.stem}:{entry['line']}"}
            (shown if task in wanted else evaluated).setdefault(str(task), []).append(entry)
    ordered = sorted(evaluated, key=lambda task: -_num_changes(evaluated[task]))
    chosen = shown | {task: evaluated[task] for task in ordered[:MAX_EVALUATED]}
    return {task: _thinned(entries) for task, entries in chosen.items()}


def _num_changes(answers: list[Record]) -> int:
    """Return how often the outcome changed, and then the texts."""
    pairs = list(itertools.pairwise(answers))
    outcomes: list[bool] = [old["success"] != new["success"] for old, new in pairs]
    texts: list[bool] = [old["texts"] != new["texts"] for old, new in pairs]
    return 1000 * sum(outcomes) + sum(texts)


def _thinned(entries: list[Record]) -> list[Record]:
    if len(entries) <= MAX_ANSWERS:
        return entries
    step = (len(entries) - 1) / (MAX_ANSWERS - 1)
    return [entries[round(number * step)] for number in range(MAX_ANSWERS)]
