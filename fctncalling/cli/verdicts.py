"""Judge recorded answers.

Writes every record again, in order, with our own `valid` and `error_type`.

A record is {"category", "form", "id", "response"}; form is "prompting", "tool_call" (with dots:
"tool_call_dots") or "decoded_calls". Other keys are kept. BFCL's result tree, a model's folder or
one file of it is read, too: its records have the form into which the model's handler decodes. A
record on which tools of ours fail, and one that came in as "invalid": true, is no wrong answer: it
gets "valid": null and "invalid": true, with the reason, and the exit code is 1.

example:
  fctncalling verdicts answers.jsonl.gz --dataset_path data/bfcl --output verdicts.jsonl
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fctncalling.cli.score.answer_judge import AnswerJudge
from fctncalling.cli.score.readings import ReadingFlags, add_reading_arguments
from fctncalling.cli.score.results import RecordedAnswer, RecordedAnswers
from fctncalling.cli.shared import convert_records
from fctncalling.cli.shared.convert_records import convert_file, mark_invalid
from fctncalling.cli.shared.jsonl_records import Record, SourceRecord
from fctncalling.cli.shared.task_finder import TaskFinder
from fctncalling.cli.shared.tool_flags import TaskTools
from fctncalling.data.format_sensitivity import CATEGORY as FORMAT_SENSITIVITY
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.judging.judge import ANSWER_FORMS

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
    flags = ReadingFlags.of(args)
    judge = RecordJudge(args.dataset_path or (), TaskTools(args), flags)
    answers = RecordedAnswers(args.input, flags)
    answers.require_libraries()
    answers.print_notes()
    status = convert_file(args, "judging", answers, judge.judge_answer)
    return judge.report() or status


class RecordJudge:
    """Judge of records, one by one."""

    def __init__(
        self,
        tasks: Path | Sequence[Path],
        tools: TaskTools | None = None,
        flags: ReadingFlags | None = None,
    ) -> None:
        flags = flags or ReadingFlags()
        self._finder = TaskFinder(tasks, tools.given if tools else ())
        self._judge = AnswerJudge(flags, tools)
        self._answers = RecordedAnswers(None, flags)
        self.report = self._judge.unread.report

    def judge_record(self, line: SourceRecord) -> Record:
        """Judge a record; return it with our verdict. InputError if it cannot be judged."""
        return self.judge_answer(self._answers.answer_of(line))

    def judge_answer(self, answer: RecordedAnswer) -> Record:
        """Judge an answer; return its record with our verdict. InputError as `judge_record`."""
        results, line, record = answer.results, answer.line, answer.source.record
        if answer.is_invalid:
            return {**record, "valid": None, "error_type": None}
        if results.is_jsonl:
            answer.source.field("form", str, f"one of {', '.join(ANSWER_FORMS)}")
        else:
            record = {"model": results.model, "category": results.category, "form": results.form}
            record["id"] = line.record["id"]
        if results.category == FORMAT_SENSITIVITY and results.form != "prompting":
            expected = f'expected "prompting", the one form of {results.category}'
            raise line.error("form", f'{expected}, got "{results.form}"')
        task = self._finder.find_task(line)
        try:
            _, response, verdict, _ = self._judge.judged(answer, task, self._finder.path)
        except InfrastructureError as error:
            return mark_invalid({**record, "valid": None, "error_type": None}, str(error))
        if results.reading.is_told:  # the record does not say itself how it is read
            record = {**record, "form": results.form, "response": response}
        return {**record, "valid": verdict.valid, "error_type": verdict.error_type}
