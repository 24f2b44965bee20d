"""Clarify checker: right calls, and questions where and only where a value was missing.

A task names the parameters whose values its request leaves open in its field `missing_parameters`.
Each is worth one question; a right call without it was a guess, and a question beyond it needless.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fctncalling.checkers.python_values import Fault
from fctncalling.data.types import Task, Verdict

MISSING = "missing_parameters"  # field of a task: names
GUESSED = "clarify:guessed"
NEEDLESS_QUESTION = "clarify:needless_question"


class ClarifyRecord(NamedTuple):
    """The record of an episode: its last message, decoded, and the questions before it."""

    calls: Any  # as the single-turn checkers read it; None where decoding failed
    questions: int  # messages without a call


def missing_parameters(task: Task) -> Sequence[str]:
    """Return the parameters that the request of a task leaves open."""
    return tuple(task.extra.get(MISSING) or ())


def question_fault(task: Task, questions: int) -> Fault | None:
    """Return why the number of questions is wrong, of an episode whose calls are right."""
    missing = missing_parameters(task)
    if questions < len(missing):
        return Fault(
            GUESSED,
            f"{questions} questions asked, but {', '.join(missing)} cannot be known without "
            "asking: the value was a guess",
        )
    if questions > len(missing):
        known = f"only {', '.join(missing)} was missing" if missing else "nothing was missing"
        return Fault(NEEDLESS_QUESTION, f"{questions} questions asked, but {known}")
    return None


def calls_are_right(verdict: Verdict) -> bool:
    """Whether the calls of a judged episode are right, whatever was asked."""
    return verdict.valid or verdict.error_type in (GUESSED, NEEDLESS_QUESTION)
