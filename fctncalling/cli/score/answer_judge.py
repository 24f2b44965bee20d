"""Judge of recorded answers: what `verdicts`, `score` and `why` make of one, alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.cli.score.readings import ReadingFlags
from fctncalling.cli.score.results import RecordedAnswer, read_response
from fctncalling.cli.score.unread_answers import UnreadAnswers
from fctncalling.cli.shared.tool_flags import TaskTools
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task, Verdict
from fctncalling.envs.judging.judge import judge


class JudgedAnswer(NamedTuple):
    """Answer with its verdict, and all that a second look at it needs."""

    task: Task  # with the docs of its tools
    response: Any  # as `judge` takes it
    verdict: Verdict
    classes: dict[str, Any] | None  # the user's own, of the task


class AnswerJudge:
    """Judge of answers one by one, which counts those that bear calls nobody reads."""

    def __init__(self, flags: ReadingFlags, tools: TaskTools | None = None) -> None:
        self.unread = UnreadAnswers(flags)
        self._tools = tools

    def judged(self, answer: RecordedAnswer, task: Task, origin: Path | str) -> JudgedAnswer:
        """Judge an answer to a task of the file `origin`.

        Raises InfrastructureError where tools of ours fail, TaskError for tools that the task
        cannot have, InputError for an answer that cannot be judged.
        """
        results, line = answer.results, answer.line
        task = self._tools.with_docs(task, origin) if self._tools else task
        try:
            response = read_response(results, task, line)
            classes = self._tools.classes_for((task,), origin) if self._tools else None
            as_read = results.reading.task(task)
            verdict = judge(as_read, response, results.form, extra_tools=classes)
        except TaskError:
            raise
        except (LookupError, ValueError, ImportError) as error:
            raise results.fault(line, f"cannot be judged: {error}") from None
        self.unread.add(results.model, task, results.reading, line.record["result"], verdict)
        return JudgedAnswer(task, response, verdict, classes)
