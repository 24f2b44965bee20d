"""Clarify checker: right calls, and questions where and only where a value was missing.

A task names the parameters whose values its request leaves open in its field `missing_parameters`.
Each is worth one question, whose answer has to say the value. A right call without that was a
guess, and a question beyond it needless. A question is a message without calls that the user
answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.checkers.python_values import Fault
from fctncalling.data.types import StepRecord, Task, Verdict

_WORD = re.compile(r"[^\W_]+")
Scalar = str | int | float | bool
Value = Scalar | Sequence[Any] | Mapping[str, Any]


def is_mentioned(value: Value, text: str) -> bool:
    """Whether a value is mentioned in a text: its words stand there together."""
    if not isinstance(value, Scalar):
        items = list(value.values() if isinstance(value, Mapping) else value)
        return bool(items) and all(is_mentioned(each, text) for each in items)
    wanted = split_words(spoken_value(value))
    return bool(wanted) and f" {' '.join(wanted)} " in f" {' '.join(split_words(text))} "


def spoken_value(value: Value) -> str:
    """Return a value as spoken: in the words in which a user says it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Scalar):
        return str(value)
    named = value.items() if isinstance(value, Mapping) else (("", each) for each in value)
    *first, last = [f"{name} {spoken_value(each)}".strip() for name, each in named] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def split_words(text: str) -> list[str]:
    """Split the words of a text, or of a parameter's name; in lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)  # camelCase
    return [word.casefold() for word in _WORD.findall(spaced)]


MISSING = "missing_parameters"  # field of a task: names
GUESSED = "clarify:guessed"
NEEDLESS_QUESTION = "clarify:needless_question"


class ClarifyRecord(NamedTuple):
    """Record of a clarify episode: its last message, decoded, and the questions before it."""

    calls: Any  # as the single-turn checkers read it; None where decoding failed
    questions: int  # messages without a call that were answered
    answers: Sequence[str] | None = None  # the user's, to them; None where they are not at hand


def is_question(step: StepRecord) -> bool:
    """Whether a step is a question to the user: the episode went on after it.

    One without a call, which the user answered.

    Calls that could not be read, and that the environment complained of, are "malformed"; where a
    call's mark opens ("unread_call") nothing was asked.
    """
    return step.error == "no_call"


def missing_parameters(task: Task) -> Sequence[str]:
    """Return the missing parameters of a task's request, which has no values for them."""
    return tuple(task.extra.get(MISSING) or ())


def question_fault(task: Task, record: ClarifyRecord) -> Fault | None:
    """Return the fault of an episode's questions, its calls being right.

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
    return value is not None and is_mentioned(value, told)


def _values(task: Task, name: str) -> Iterator[Any]:
    """Yield the values of a parameter that the truth accepts."""
    for call in task.ground_truth or ():
        for arguments in call.values():
            yield from arguments.get(name, ())


def calls_are_right(verdict: Verdict) -> bool:
    """Whether a verdict says that the calls are right, whatever was asked."""
    return verdict.valid or verdict.error_type in (GUESSED, NEEDLESS_QUESTION)
