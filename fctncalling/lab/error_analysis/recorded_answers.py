"""Recorded answers with their tasks: BFCL's result tree or one file of it, or JSON Lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.cli.score.responses import response_of
from fctncalling.cli.score.results import (
    GROUPS,
    Results,
    model_category_form,
    official_id,
    official_results,
)
from fctncalling.cli.shared.jsonl_records import InputError, Line, read_records
from fctncalling.cli.shared.task_finder import TaskFinder
from fctncalling.data.types import Task
from fctncalling.evaluation.agents.agent import CONTEXT_OVERFLOW

_FOLDERS = frozenset({*GROUPS, "memory", "kv", "vector", "rec_sum"})


class RecordedAnswer(NamedTuple):
    """One answer as `judge` takes it."""

    results: Results
    line: Line
    task: Task
    response: Any
    overflowed: bool


def recorded_answers(
    path: Path, finder: TaskFinder, categories: Collection[str], form: str | None
) -> Iterator[RecordedAnswer | None]:
    """Yield every answer of the wanted categories (all where there are none).

    None for one that is marked invalid.

    Raises InputError for what cannot be read.
    """
    for results, line in _lines(path, form):
        if categories and results.category not in categories:
            continue
        if line.record.get("invalid") is True:
            yield None
            continue
        named = {**line.record, "category": results.category}
        named["id"] = official_id(line.field("id", str, "a task's id"))
        task = finder.task_of(Line(line.path, line.number, named))
        if "result" not in line.record:
            raise results.fault(line, "expected the answer, but there is no such field")
        try:
            response = response_of(results, task, line)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise results.fault(line, f"cannot be read: {error}") from None
        overflowed = bool(line.record.get(CONTEXT_OVERFLOW))
        yield RecordedAnswer(results, line, task, response, overflowed)


def _lines(path: Path, form: str | None) -> Iterator[tuple[Results, Line]]:
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder")
    if path.is_dir() or path.name.endswith("_result.json"):
        for results in _tree(path, form):
            for line in results.lines():
                yield results, line
        return
    for line in read_records(path):
        model, category, line_form = model_category_form(line)
        results = Results(model, category, path, line_form, path)
        yield results, line._replace(record={**line.record, "result": line.record["response"]})


def _tree(path: Path, form: str | None) -> list[Results]:
    """Return the results of a tree, or the one of a file out of one."""
    if path.is_dir():
        return official_results(path, form)
    root = path.resolve().parent
    while root.name in _FOLDERS:
        root = root.parent
    return [each for each in official_results(root, form) if each.path == path.resolve()]
