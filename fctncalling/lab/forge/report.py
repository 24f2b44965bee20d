"""Report of a forged file: a table of figures for each category, forged beside official."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.errors import TaskError
from fctncalling.data.paths import atomic_write
from fctncalling.data.types import Task
from fctncalling.lab.forge.forged_entry import user_texts
from fctncalling.lab.forge.measures import (
    Figure,
    count_multi_turn,
    length_spread,
    measure_multi_turn,
    measure_single_turn,
)
from fctncalling.lab.forge.official_guard import expected_calls_text

MAX_TASKS = 2000  # of a category, the first ones: memory stays the same however long the file is
MOST_OUTCOMES = 12  # of a distribution


def write_report(
    tasks: Path, official_folder: Path | None, page: Path, ledger: Mapping[str, Any]
) -> None:
    """Write the Markdown page of a forged file; without official files their column is empty.

    `ledger` holds settings and totals as the ledger's first and last line do.
    """
    by_category: dict[str, list[Task]] = {}
    for task in iter_tasks(tasks):
        first = by_category.setdefault(task.category, [])
        if len(first) < MAX_TASKS:
            first.append(task)
    sections = (
        _section(category, forged, official_tasks(official_folder, category))
        for category, forged in by_category.items()
    )
    text = "\n".join([f"# Forged tasks: {tasks.name}", "", _summary(ledger), *sections, ""])
    with atomic_write(page) as part:
        part.write_text(text, encoding="utf-8")


def official_tasks(folder: Path | None, category: str) -> list[Task]:
    """Return the official tasks of a category; none where the folder has no such file."""
    file = folder and folder / f"BFCL_v4_{category}.json"
    try:
        return list(iter_tasks(file)) if file and file.exists() else []
    except TaskError:
        return []


def _section(category: str, forged: Sequence[Task], official: Sequence[Task]) -> str:
    ours, theirs = figure_texts(forged), figure_texts(official)
    head = f"{len(forged)} forged tasks, {len(official) or 'no'} official ones."
    rows = [f"| {name} | {text} | {theirs.get(name, '')} |" for name, text in ours.items()]
    columns = ["| measure | forged | official |", "|---|---|---|"]
    return "\n".join(["", f"## {category}", "", head, "", *columns, *rows])


def figure_texts(tasks: Sequence[Task]) -> dict[str, str]:
    """Return measure -> figure as text, of tasks of one category; empty for no tasks."""
    if not tasks:
        return {}
    if not tasks[0].is_multi_turn:
        figures = measure_single_turn(tasks)
        return {name: _figure_text(figure) for name, figure in figures.items()}
    # A few official truths cannot be written as calls.
    counts = count_multi_turn(task for task in tasks if expected_calls_text(task) is not None)
    lengths = length_spread(text for task in tasks for text in user_texts(task.question))
    return {
        **{
            name.replace("_", " "): _figure_text({k: share / 100 for k, share in figure.items()})
            if isinstance(figure, Mapping)
            else str(figure)
            for name, figure in measure_multi_turn(counts).items()
        },
        "words of a turn": _figure_text(lengths),
    }


def _figure_text(figure: Figure) -> str:
    """Return "2: 40 %, 3: 60 %" (the most frequent outcomes of many), "40.0%", or a spread."""
    if isinstance(figure, Mapping):
        shares, kept = figure, [*figure]
        if len(kept) > MOST_OUTCOMES:
            kept = sorted(shares, key=lambda key: -shares[key])[:MOST_OUTCOMES]
        return ", ".join(f"{key}: {100 * shares[key]:.0f} %" for key in kept)
    if isinstance(figure, tuple):
        mean, median, ninth = figure
        return f"{mean:.1f}, {median:.0f}, {ninth:.0f} (mean, median, 90 %)"
    return f"{figure:.1%}"


def _summary(ledger: Mapping[str, Any]) -> str:
    settings, totals = ledger["settings"], ledger["totals"]
    thrown = ", ".join(f"{count} that {why}" for why, count in totals["thrown_away"].items())
    official = settings["official_files"]
    compared = f"{len(official)} official files" if official else "no official file (none was here)"
    return (
        f"{totals['tasks']} tasks of seed {settings['seed']}, compared with {compared}; "
        f"thrown away: {thrown or 'none'}."
    )
