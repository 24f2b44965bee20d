"""Clarify checker: right calls, and questions where and only where a value was missing.

A task names the parameters whose values its request leaves open in its field `missing_parameters`.
Each is worth one question, whose answer has to say the value. A right call without that was a
guess, and a question beyond it needless. A question is a message without calls that the user
answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fctncalling.checkers.python_values import Fault
from fctncalling.checkers.said_values import is_said
from fctncalling.data.types import StepRecord, Task, Verdict

MISSING = "missing_parameters"  # field of a task: names
GUESSED = "clarify:guessed"
NEEDLESS_QUESTION = "clarify:needless_question"


class ClarifyRecord(NamedTuple):
    """The record of an episode: its last message, decoded, and the questions before it."""

    calls: Any  # as the single-turn checkers read it; None where decoding failed
    questions: int  # messages without a call that were answered
    answers: Sequence[str] | None = None  # the user's, to them; None where they are not at hand


def is_question(step: StepRecord) -> bool:
    """Whether a step after which the episode went on was a question.

    One without a call, which the user answered.

    Calls that could not be read, and that the environment complained of, are "malformed".
    """
    return step.error == "no_call"


def missing_parameters(task: Task) -> Sequence[str]:
    """Return the parameters that the request of a task leaves open."""
    return tuple(task.extra.get(MISSING) or ())


def question_fault(task: Task, record: ClarifyRecord) -> Fault | None:
    """Return what is wrong with the questions of an episode whose calls are right.

    Without the user's answers, questions are counted and nothing more.
    """
    missing, questions = missing_parameters(task), record.questions
    if questions > len(missing):
        known = f"only {', '.join(missing)} was missing" if missing else "nothing was missing"
        return Fault(NEEDLESS_QUESTION, f"{questions} questions asked, but {known}")
    if questions < len(missing):
        return _guessed(questions, missing)
    if record.answers is None:
        return None
    told = " | ".join(record.answers)
    unsaid = [name for name in missing if not any(_is_told(v, told) for v in _values(task, name))]
    return _guessed(questions, unsaid) if unsaid else None


def _guessed(questions: int, unsaid: Sequence[str]) -> Fault:
    return Fault(
        GUESSED,
        f"{questions} questions asked, but no answer said {', '.join(unsaid)}: the value was a "
        "guess",
    )


def _is_told(value: Any, told: str) -> bool:
    """Whether an accepted value is said; an object lists the accepted values of each key."""
    if isinstance(value, dict):
        return all(any(_is_told(v, told) or v == "" for v in each) for each in value.values())
    if isinstance(value, list | tuple):
        return bool(value) and all(_is_told(each, told) for each in value)
    return value is not None and is_said(value, told)


def _values(task: Task, name: str) -> Iterator[Any]:
    """Yield the values of a parameter that the truth accepts."""
    for call in task.ground_truth or ():
        for arguments in call.values():
            yield from arguments.get(name, ())


def calls_are_right(verdict: Verdict) -> bool:
    """Whether the calls of a judged episode are right, whatever was asked."""
    return verdict.valid or verdict.error_type in (GUESSED, NEEDLESS_QUESTION)
