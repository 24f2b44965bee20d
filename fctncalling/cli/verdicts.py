"""Judge recorded answers.

Writes every record again, in order, with our own `valid` and `error_type`.

A record is {"category", "form", "id", "response"}; form is "prompting", "tool_call" (with dots:
"tool_call_dots") or "decoded_calls". Other keys are kept. BFCL's result tree, a model's folder or
one file of it is read, too: its records have the form into which the model's handler decodes. A
record on which tools of ours fail, and one that came in as "invalid": true, is no wrong answer: it
gets "valid": null and "invalid": true, with the reason, and the exit code is 1.

example:
  fctncalling verdicts --dataset_path data/bfcl --input answers.jsonl.gz --output verdicts.jsonl
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fctncalling.cli.score.readings import ReadingFlags, add_reading_arguments
from fctncalling.cli.score.results import (
    CategoryAnswers,
    LineReadings,
    is_result_tree,
    model_category_form,
    official_results,
    read_response,
    v4_entry_id,
)
from fctncalling.cli.score.unread_answers import UnreadAnswers
from fctncalling.cli.shared import convert_records
from fctncalling.cli.shared.convert_records import convert_file, mark_invalid
from fctncalling.cli.shared.jsonl_records import InputError, Record, SourceRecord, read_records
from fctncalling.cli.shared.parser import print_error
from fctncalling.cli.shared.task_finder import TaskFinder
from fctncalling.cli.shared.tool_flags import TaskTools
from fctncalling.data import format_sensitivity
from fctncalling.data.categories import UnsupportedCategory, category_kind
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task, TurnResults
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.judging.judge import ANSWER_FORMS, judge, replay_ground_truth

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the subcommand `verdicts` to a parser."""
    convert_records.add_arguments(parser)
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the subcommand `verdicts`: judge every record.

    Return 0, 1 if some are invalid, 2 if a record or a task cannot be used, or answers are in a
    form that their decoder does not read.
    """
    try:
        answers = RecordedAnswers(args.input, ReadingFlags.of(args))
    except InputError as error:
        return print_error(error)
    status = convert_file(
        args,
        "judging",
        lambda paths, tools: RecordJudge(paths, tools, answers).judge_record,
        lambda _: answers.lines(),
    )
    return answers.unread.report() or status


class RecordedAnswers:
    """Records of answers: JSON Lines, or a result tree as such, with how they are read."""

    def __init__(self, path: Path, flags: ReadingFlags) -> None:
        self.unread = UnreadAnswers(flags)
        self._path = path
        self._files: dict[Path, CategoryAnswers] = {}
        if path.is_dir() or is_result_tree(path):
            self._files = {each.path: each for each in official_results(path, flags)}
        self._readings = None if self._files or not path.exists() else LineReadings(path, flags)

    def lines(self) -> Iterator[SourceRecord]:
        """Yield every record, numbered as in its file; raises InputError."""
        if not self._files:
            yield from read_records(self._path)
        for results in self._files.values():
            for line in results.lines():
                yield line._replace(
                    record={
                        "model": results.model,
                        "category": results.category,
                        "form": results.form,
                        "id": v4_entry_id(line.field("id", str, "a task's id")),
                        "response": line.record.get("result"),
                    }
                )

    def of_line(self, line: SourceRecord, form: str) -> CategoryAnswers | None:
        """Return the answers that a record is one of; None where its own form says all."""
        if self._readings is None:
            return self._files.get(line.path)
        model, category, _ = model_category_form(line)
        reading = self._readings.reading(model, form)
        if reading.source == "record":
            return None
        return CategoryAnswers(model, category, line.path, reading, line.path)


class RecordJudge:
    """Judge of records, one by one.

    The truth of a task is replayed once for all answers that follow each other.
    """

    def __init__(
        self,
        tasks: Path | Sequence[Path],
        tools: TaskTools | None = None,
        answers: RecordedAnswers | None = None,
    ) -> None:
        self._finder = TaskFinder(tasks, tools.given if tools else ())
        self._tools = tools
        self._answers = answers
        self._truth: tuple[str, Sequence[TurnResults]] | None = None

    def judge_record(self, line: SourceRecord) -> Record:
        """Judge a record; return it with our verdict. InputError if it cannot be judged."""
        if line.record.get("invalid") is True:
            return {**line.record, "valid": None, "error_type": None}
        form = line.field("form", str, f"one of {', '.join(ANSWER_FORMS)}")
        form = "tool_call" if form == "tools_text" else form  # how an agent was asked, by `run`
        if form not in ANSWER_FORMS:
            raise line.error("form", f'expected one of {", ".join(ANSWER_FORMS)}, got "{form}"')
        if "response" not in line.record:
            raise line.error("response", "expected the answer, but there is no such field")
        category = line.field("category", str, "a category's name")
        if category == format_sensitivity.CATEGORY and form != "prompting":
            raise line.error(
                "form", f'expected "prompting", the one form of {category}, got "{form}"'
            )
        try:
            if category != format_sensitivity.CATEGORY:
                category_kind(category)
            return self._judged(line, self._finder.find_task(line), form)
        except UnsupportedCategory as error:
            raise line.error("category", str(error)) from None
        except TaskError:
            raise
        except InfrastructureError as error:
            return mark_invalid({**line.record, "valid": None, "error_type": None}, str(error))
        except (LookupError, ValueError, ImportError) as error:
            raise line.error("id", f"cannot be judged: {error}") from None

    def _judged(self, line: SourceRecord, task: Task, form: str) -> Record:
        user_classes = self._tools.classes_for((task,), self._finder.path) if self._tools else None
        truth = self._truth_of(task, user_classes) if task.is_multi_turn else None
        answer = response = line.record["response"]
        results = self._answers.of_line(line, form) if self._answers else None
        if results is not None:
            as_line = line._replace(record={**line.record, "result": answer})
            form, response = results.form, read_response(results, task, as_line)
            task = results.reading.task(task)
        verdict = judge(task, response, form, truth=truth, extra_tools=user_classes)
        if results is not None and self._answers is not None:
            self._answers.unread.add(results.model, task, results.reading, answer, verdict)
        read = {} if results is None else {"form": form, "response": response}
        judged = {"valid": verdict.valid, "error_type": verdict.error_type}
        return {**line.record, **read, **judged}

    def _truth_of(self, task: Task, user_classes: dict[str, Any] | None) -> Sequence[TurnResults]:
        if self._truth is None or self._truth[0] != task.id:
            self._truth = (task.id, replay_ground_truth(task, user_classes))
        return self._truth[1]
