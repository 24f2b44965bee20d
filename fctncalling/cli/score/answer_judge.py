"""Judge of recorded answers, shared by `verdicts`, `score` and `why`."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.cli.score.readings import (
    Reading,
    ReadingFlags,
    holds_calls,
    holds_objects,
)
from fctncalling.cli.score.results import RecordedAnswer, read_response
from fctncalling.cli.shared.tool_flags import TaskTools
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task, Verdict
from fctncalling.envs.handlers import bears_call
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.accepted_answers import accepted_answer

MAX_SHARE = 0.25
"""Share of a category's answers above which somebody has to say how they are read."""
_MAX_TOLD = 5
_MANY = 5
"""Answers with calls from which on a decoder that reads none of a model's is doubted."""


class UnreadAnswers:
    """Counts of a run of scoring, by model and category."""

    def __init__(self, flags: ReadingFlags) -> None:
        self._flags = flags
        self._counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._readings: dict[tuple[str, str], Reading] = {}
        self._read: set[str] = set()  # models of which some answer decodes to calls

    def add(self, model: str, task: Task, reading: Reading, answer: Any, verdict: Verdict) -> None:
        """Count one answer, as its line holds it, with its verdict."""
        if reading.form == "decoded_calls":
            return
        key = (model, task.category)
        counts = self._counts[key]
        self._readings[key] = reading
        counts["answers"] += 1
        if not _decodes_to_nothing(task, verdict):
            self._read.add(model)
            counts["misspelt"] += _differs_in_dots(verdict)
        elif _bears_call(answer):
            counts["unread"] += 1
            counts["other kind"] += _is_other_kind(reading, answer)
        elif self._may_miss_calls(model, task, reading, answer) and holds_calls(answer):
            counts["unmarked"] += 1
            counts["other kind"] += _is_other_kind(reading, answer)

    def _may_miss_calls(self, model: str, task: Task, reading: Reading, answer: Any) -> bool:
        """Whether unmarked calls count as unread in an answer that decodes to no call.

        Always of models that nothing is read of yet; of others only where the form was guessed,
        and not where the task itself asks for a form that a model may miss.
        """
        if model not in self._read:
            return True
        if reading.is_official or task.language != "python" or "prompt_variant" in task.extra:
            return False
        is_dialogue = task.kind in ("multi_turn", "agentic")  # other steps of it may be read
        return not is_dialogue or (not reading.takes_texts and not holds_objects(answer))

    def _mixed_kinds(self) -> Iterator[str]:
        """Yield a line on each model with answers of the kind that it is not read as."""
        for model in dict.fromkeys(model for model, _ in self._counts):
            own = {key: counts for key, counts in self._counts.items() if key[0] == model}
            count, total = (
                sum(e[name] for e in own.values()) for name in ("other kind", "answers")
            )
            if count:
                takes_texts = self._readings[next(iter(own))].takes_texts
                kinds = ("lists of tool calls", "texts") if takes_texts else ("texts", "tool calls")
                yield (
                    f"{model}: {count} of {total} answers hold {kinds[0]}, but all are read as "
                    f"{kinds[1]}, which reads no call of those: write all in one form"
                )

    def doubts(self) -> Iterator[tuple[str, bool]]:
        """Yield, of each category with too many, a line and whether its figure is wrong by it.

        A form that lines name is trusted, and a released model's own decoder or a named one,
        unless it reads nothing of the model at all. At the end, models with answers of two kinds.
        """
        for (model, category), counts in self._counts.items():
            reading, most = self._readings[model, category], MAX_SHARE * counts["answers"]
            where = f"{model}, {category}: {{}} of {counts['answers']} answers"
            unread, reads_some = counts["unread"], model in self._read
            is_many = unread + counts["unmarked"] >= _MANY
            if is_many if not reads_some else not reading.is_official:
                unread += counts["unmarked"]
            elif self._flags.names_reading:
                unread = 0
            if unread > most:
                is_wrong = not reading.is_official or (not reads_some and reading.is_told)
                found = "--handler auto finds what reads them, "
                found = "" if self._flags.handler == "auto" else found
                cure = f": {found}--handler NAME says it"
                if not is_wrong and reading.is_told:
                    cure = ", as on the leaderboard"
                yield (
                    f"{where.format(unread)} bear calls and decode to nothing by "
                    f"{reading.words()}{cure}",
                    is_wrong,
                )
            if counts["misspelt"] > most and self._flags.dots == "auto":
                other = "keep" if reading.underscores else "underscore"
                yield (
                    f"{where.format(counts['misspelt'])} name the right function but for its dots: "
                    f"--dots {other} expects them so",
                    not reading.is_official,
                )
        yield from ((line, False) for line in self._mixed_kinds())

    def report(self) -> int:
        """Print the doubts on stderr; return 2 where a figure is wrong by one, else 0."""
        doubts = list(self.doubts())
        for is_wrong, word in ((True, "error"), (False, "note")):
            lines = [line for line, each in doubts if each == is_wrong]
            for line in lines[:_MAX_TOLD]:
                print(f"{word}: {line}", file=sys.stderr)
            if len(lines) > _MAX_TOLD:
                print(f"{word}: and {len(lines) - _MAX_TOLD} more categories", file=sys.stderr)
        return 2 if any(is_wrong for _, is_wrong in doubts) else 0


_NAMES = re.compile(r"expected '(.+)', got '(.+)'$")


def _differs_in_dots(verdict: Verdict) -> bool:
    """Whether a verdict names a function that differs from the expected one in dots alone."""
    if verdict.valid or "wrong_func_name" not in str(verdict.error_type):
        return False
    names = _NAMES.search(verdict.message)
    return names is not None and names[1].replace(".", "_") == names[2].replace(".", "_")


def _decodes_to_nothing(task: Task, verdict: Verdict) -> bool:
    if task.kind == "irrelevance":
        return verdict.valid
    if task.kind == "relevance":
        return not verdict.valid
    if task.kind == "multi_turn":
        return verdict.error_type == "multi_turn:empty_turn_model_response"
    if task.kind == "agentic":
        return not verdict.valid
    error = str(verdict.error_type)
    empty_list = error.endswith(":wrong_count") and verdict.message.endswith(", got 0")
    return error.startswith("ast_decoder:") or empty_list


def _bears_call(answer: Any) -> bool:
    """Whether a text, or any of a dialogue, has a call; objects of an interface are calls."""
    if isinstance(answer, str):
        return bears_call(answer)
    if isinstance(answer, Mapping):
        return bool(answer)
    return isinstance(answer, list) and any(map(_bears_call, answer))


def _is_other_kind(reading: Reading, answer: Any) -> bool:
    """Whether an answer is text where tool calls of an interface are expected, or the reverse."""
    return reading.is_told and reading.takes_texts == holds_objects(answer)


_FILE = Path(__file__).with_name("disputed_truths.json")


@cache
def disputed_truths() -> dict[str, str]:
    """Return task id -> issue and what is wrong; all are in the data of bfcl-eval 2026.3.23."""
    listed = json.loads(_FILE.read_text("utf-8"))
    return {task: f"{issue}: {fault}" for task, (issue, fault) in listed.items()}


_SINGLE_TURN = ("simple", "multiple", "parallel")


def truth_fault(task: Task, form: str) -> str:
    """Return the fault of a task's ground truth when judged in an answer form; "" if sound.

    Known by its issue, or seen: the answer written from the truth itself fails.
    """
    if known := disputed_truths().get(task.id):
        return known
    if task.kind not in _SINGLE_TURN:
        return ""
    text = accepted_answer(task, form)
    fails = text is not None and not judge(task, text, form).valid
    return "no answer passes" if fails else ""


def disputed_line(faults: Mapping[str, str]) -> list[str]:
    """Return a line about failed tasks with what is wrong with their truths, or none."""
    found = [f"{task} ({fault})" for task, fault in faults.items()]
    return [f"failed by a truth that is known to be wrong: {'; '.join(found)}"] if found else []


class JudgedAnswer(NamedTuple):
    """Answer with its verdict, and all that a second look at it needs."""

    task: Task  # with the docs of its tools
    response: Any  # as `judge` takes it
    verdict: Verdict
    classes: dict[str, Any] | None  # the user's own, of the task


class AnswerJudge:
    """Judge of single answers, with counts of answers with unread calls."""

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
