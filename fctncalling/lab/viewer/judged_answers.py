"""Answers of a result tree, judged, as the episodes of a page."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fctncalling.cli.score.answer_judge import UnreadAnswers, disputed_truths
from fctncalling.cli.score.readings import ReadingFlags
from fctncalling.cli.score.results import (
    CategoryAnswers,
    RecordedAnswers,
    is_result_tree,
    read_response,
)
from fctncalling.cli.score.score_files import steps_of_messages
from fctncalling.cli.shared.jsonl_records import (
    InputError,
    SourceRecord,
    read_records,
    with_progress_bar,
)
from fctncalling.cli.shared.task_finder import TaskFinder
from fctncalling.cli.shared.tool_flags import TaskTools
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.episode_log import dataclass_to_json, verdict_fields
from fctncalling.lab.viewer.run_files import LoadedRun, Record, ViewError


def is_answers(path: Path) -> bool:
    """Whether a path is a result tree, a part of one, or JSON Lines of answers without steps."""
    if path.is_dir():
        return not (path / "episodes").is_dir() and is_result_tree(path)
    if not path.is_file() or is_result_tree(path):
        return path.is_file()
    try:
        first = next(read_records(path), None)
    except InputError:
        return False
    return first is not None and "response" in first.record and "steps" not in first.record


class JudgedAnswers:
    """Answers of a result tree, or JSON Lines of answers without steps, judged at each pass."""

    def __init__(
        self, path: Path, flags: ReadingFlags, finder: TaskFinder, tools: TaskTools
    ) -> None:
        self.unread = UnreadAnswers(flags)
        self._answers = RecordedAnswers(path, flags)
        self._path = path
        self._flags = flags
        self._finder = finder
        self._tools = tools

    def __iter__(self) -> Iterator[Record]:
        """Yield an episode record of each answer, numbered from 1; raises InputError."""
        self.unread = UnreadAnswers(self._flags)
        answers = with_progress_bar(self._answers, f"judging {self._path.name}", "answer")
        for number, (results, _, line) in enumerate(answers, 1):
            task = self._finder.find_task(line)
            head = {"line": number, "id": task.id, "model": results.model}
            head |= {"category": results.category, "ground_truth": task.ground_truth}
            yield {**head, **self._judged(results, line, task)}

    def loaded(self) -> LoadedRun:
        """Return the answers as a run that a page is made of; ViewError for several models'."""
        if len(models := sorted({results.model for results in self._answers.files})) > 1:
            given = shlex.join(str(self._path / model) for model in models)
            raise ViewError(
                f"{self._path} holds the answers of {len(models)} models: expected those of one; "
                f"to compare them: fctncalling view {given}"
            )
        notes = [*self._answers.notes]
        return LoadedRun(self._path, "judged answers", self, self._path, notes=notes)

    def _judged(self, results: CategoryAnswers, line: SourceRecord, task: Task) -> Record:
        try:
            task = results.reading.task(self._tools.with_docs(task, self._finder.path))
            response = read_response(results, task, line)
            classes = self._tools.classes_for((task,), self._finder.path)
            verdict = judge(task, response, results.form, extra_tools=classes)
            steps = steps_of_messages(task, response, results.form)
        except TaskError:
            raise
        except (InfrastructureError, LookupError, ValueError, ImportError) as error:
            return {"invalid": True, "invalid_reason": str(error), "steps": []}
        raw = line.record["result"]
        self.unread.add(results.model, task, results.reading, raw, verdict)
        if not verdict.valid and (known := disputed_truths().get(task.id)):
            message = f"{verdict.message} (the truth is known to be wrong, {known})"
            verdict = dataclasses.replace(verdict, message=message)
        as_written = zip(steps, _texts(task, raw), strict=False)
        shown = [dataclasses.replace(step, text=text) for step, text in as_written]
        return {
            "messages": list(task.question[0]) if task.question else [],
            "steps": [dataclass_to_json(each) for each in shown],
            "terminated": True,
            **verdict_fields(task, steps, verdict),
        }


def _texts(task: Task, raw: Any) -> list[str]:
    """Return the texts of an answer's steps as the model wrote them."""
    steps = [raw]
    if task.executes_calls and isinstance(raw, list):
        steps = [step for turn in raw for step in (turn if isinstance(turn, list) else ())]
    return [step if isinstance(step, str) else json.dumps(step) for step in steps]
