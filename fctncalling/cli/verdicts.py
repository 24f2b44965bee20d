"""Judge recorded answers.

Writes every record again, in order, with our own `valid` and `error_type`.

A record is {"category", "form", "id", "response"}; form is "prompting", "tool_call" or
"decoded_calls". Other keys are kept. A record on which tools of ours fail, and one that came in as
"invalid": true, is no wrong answer: it gets "valid": null and "invalid": true, with the reason, and
the exit code is 1.

example:
  fctncalling verdicts --dataset_path data/bfcl --input answers.jsonl.gz --output
  verdicts.jsonl
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.convert_records import add_arguments, convert_file, mark_invalid
from fctncalling.cli.shared.jsonl_records import Record, SourceRecord
from fctncalling.cli.shared.task_finder import TaskFinder
from fctncalling.cli.shared.tool_flags import TaskTools
from fctncalling.data import format_sensitivity
from fctncalling.data.categories import UnsupportedCategory, category_kind
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task, TurnResults
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.judging.judge import ANSWER_FORMS, judge, replay_ground_truth

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Run the subcommand `verdicts`: judge every record.

    Return 0, 1 if some are invalid, 2 if a record or a task cannot be used.
    """
    return convert_file(
        args, "judging", lambda paths, tools: RecordJudge(paths, tools).judge_record
    )


class RecordJudge:
    """Judge of records, one by one.

    The truth of a task is replayed once for all answers that follow each other.
    """

    def __init__(self, tasks: Path | Sequence[Path], tools: TaskTools | None = None) -> None:
        self._finder = TaskFinder(tasks, tools.given if tools else ())
        self._tools = tools
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
            task = self._finder.find_task(line)
            user_classes = (
                self._tools.classes_for((task,), self._finder.path) if self._tools else None
            )
            truth = self._truth_of(task, user_classes) if task.is_multi_turn else None
            verdict = judge(
                task, line.record["response"], form, truth=truth, extra_tools=user_classes
            )
        except UnsupportedCategory as error:
            raise line.error("category", str(error)) from None
        except TaskError:
            raise
        except InfrastructureError as error:
            return mark_invalid({**line.record, "valid": None, "error_type": None}, str(error))
        except (LookupError, ValueError, ImportError) as error:
            raise line.error("id", f"cannot be judged: {error}") from None
        return {**line.record, "valid": verdict.valid, "error_type": verdict.error_type}

    def _truth_of(self, task: Task, user_classes: dict[str, Any] | None) -> Sequence[TurnResults]:
        if self._truth is None or self._truth[0] != task.id:
            self._truth = (task.id, replay_ground_truth(task, user_classes))
        return self._truth[1]
