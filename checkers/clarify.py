"""Clarify checker: right calls, and questions where and only where a value was missing.

A task names the parameters whose values its request leaves open in its field `missing_parameters`.
Each is worth one question, whose answer has to say the value. A right call without that was a
guess, and a question beyond it needless. A question is a message without calls that the user
answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.checkers.python_values import Fault
from fctncalling.data.types import StepRecord, Task, Verdict

_WORD = re.compile(r"[^\W_]+")
Scalar = str | int | float | bool
Value = Scalar | Sequence[Any] | Mapping[str, Any]


def is_mentioned(value: Value, text: str) -> bool:
    """Whether a text contains the words of a value together."""
    if not isinstance(value, Scalar):
        items = list(value.values() if isinstance(value, Mapping) else value)
        return bool(items) and all(is_mentioned(item, text) for item in items)
    wanted = split_words(spoken_value(value))
    return bool(wanted) and f" {' '.join(wanted)} " in f" {' '.join(split_words(text))} "


def spoken_value(value: Value) -> str:
    """Return a value in the words of a user."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Scalar):
        return str(value)
    named = value.items() if isinstance(value, Mapping) else (("", item) for item in value)
    *first, last = [f"{name} {spoken_value(item)}".strip() for name, item in named] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def split_words(text: str) -> list[str]:
    """Split a text or a parameter's name into words in lower case."""
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
    """Whether a step is a question to the user: a message without calls that was answered.

    Calls that could not be read, and that the environment complained of, are "malformed"; where a
    call's mark opens ("unread_call") nothing was asked.
    """
    return step.error == "no_call"


def missing_parameters(task: Task) -> Sequence[str]:
    """Return the parameters for which a task's request gives no value."""
    return tuple(task.extra.get(MISSING) or ())


def question_fault(task: Task, record: ClarifyRecord) -> Fault | None:
    """Return the fault of an episode's questions, given that its calls are right.

    Without the user's answers, questions are counted and nothing more.
    """
    missing, questions = missing_parameters(task), record.questions
    if questions > len(missing):
        needed = f"only {', '.join(missing)} was missing" if missing else "nothing was missing"
        return Fault(NEEDLESS_QUESTION, f"{questions} questions asked, but {needed}")
    if questions < len(missing):
        return _guessed(questions, missing)
    if record.answers is None:
        return None
    answers = " | ".join(record.answers)
    unsaid = [name for name in missing if not _is_any_said(_values(task, name), answers)]
    return _guessed(questions, unsaid) if unsaid else None


def _guessed(questions: int, unsaid: Sequence[str]) -> Fault:
    return Fault(
        GUESSED,
        f"{questions} questions asked, but no answer said {', '.join(unsaid)}: the value was a "
        "guess",
    )


def _is_said(value: Any, text: str) -> bool:
    """Whether a text mentions an accepted value; an object lists accepted values for each key."""
    if isinstance(value, dict):
        return all(
            any(choice == "" or _is_said(choice, text) for choice in accepted)
            for accepted in value.values()
        )
    if isinstance(value, list | tuple):
        return bool(value) and all(_is_said(item, text) for item in value)
    return value is not None and is_mentioned(value, text)


def _is_any_said(values: Iterable[Any], text: str) -> bool:
    return any(_is_said(value, text) for value in values)


def _values(task: Task, name: str) -> Iterator[Any]:
    """Yield the values of a parameter that the truth accepts."""
    for call in task.ground_truth or ():
        for arguments in call.values():
            yield from arguments.get(name, ())


def calls_are_right(verdict: Verdict) -> bool:
    """Whether the calls are right by a verdict, however many questions there were."""
    return verdict.valid or verdict.error_type in (GUESSED, NEEDLESS_QUESTION)
