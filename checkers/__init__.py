"""Checkers: pure functions from (task, record, truth) to a verdict, chosen by the category's name
as BFCL does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from fctncalling.checkers.agentic import answer_fault
from fctncalling.checkers.ast_checker import (
    ArgumentChecker,
    CallChecker,
    Truth,
    format_fault,
    irrelevance_fault,
    relevance_fault,
)
from fctncalling.checkers.java_values import java_fault
from fctncalling.checkers.javascript_values import javascript_fault
from fctncalling.checkers.multi_turn import check_turns
from fctncalling.checkers.python_values import Fault, python_fault
from fctncalling.data.types import Task, Verdict

__all__ = ["LANGUAGES", "UnsupportedCategory", "check", "kind_of", "language_of"]

LANGUAGES: dict[str, ArgumentChecker] = {
    "python": python_fault,
    "java": java_fault,
    "javascript": javascript_fault,
}
"""Language of a category's arguments -> how they are checked."""

# Kind of check -> what a category's name holds; the first that fits, as in BFCL's dispatch.
_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("unsupported", ("exec_",)),  # retired: judged by running them
    ("multi_turn", ("multi_turn",)),
    ("agentic", ("memory", "web_search")),
    ("irrelevance", ("irrelevance",)),
    ("relevance", ("relevance",)),
    ("parallel", ("parallel",)),
    ("multiple", ("multiple",)),
    ("simple", ("simple",)),
)
_VALID = Verdict(True, 1.0)
_RELEVANCE: dict[str, Callable[[Any], Fault | None]] = {
    "irrelevance": irrelevance_fault,
    "relevance": relevance_fault,
}


class UnsupportedCategory(ValueError):
    """A category that no checker here can judge."""


@lru_cache(maxsize=256)
def language_of(category: str) -> str:
    """Return the language whose literals a category's arguments are: python, java or javascript."""
    return next((language for language in ("javascript", "java") if language in category), "python")


@lru_cache(maxsize=256)
def kind_of(category: str) -> str:
    """Return which check judges a category: simple, multiple, parallel, relevance, irrelevance,
    multi_turn or agentic.

    Raises UnsupportedCategory, naming it and what is supported, where there is none.
    """
    kind = next(
        (kind for kind, parts in _KINDS if any(part in category for part in parts)), "unsupported"
    )
    language = language_of(category)
    if kind == "unsupported" or language not in LANGUAGES:
        kinds = ", ".join(name for name, _ in _KINDS[1:])
        raise UnsupportedCategory(
            f'no checker judges category "{category}": expected one of the kinds {kinds}, '
            f"with arguments in {', '.join(LANGUAGES)}"
        )
    return kind


def check(
    task: Task, record: Any, truth: Sequence[Any] | None = None, *, underscore_to_dot: bool = False
) -> Verdict:
    """Return the verdict on a record of one task.

    Single turn: `record` is the decoder's list of {name: {parameter: value}}, None where it failed;
    `truth` defaults to the task's own. Multi turn: both are sequences of TurnRecords. Agentic:
    `record` is the last message that calls nothing. `underscore_to_dot` expects the names in which
    dots became underscores, as interfaces with restricted names are offered them. Raises
    UnsupportedCategory, and ValueError for a task without a usable ground truth.
    """
    kind = kind_of(task.category)
    if kind == "multi_turn":
        if truth is None:
            raise ValueError(
                f'task "{task.id}": a multi-turn check needs the turns of the replayed truth'
            )
        return check_turns(record, truth)
    if kind in _RELEVANCE:
        return _verdict(_RELEVANCE[kind](record))
    accepted = task.ground_truth if truth is None else truth
    if kind == "agentic" and accepted:
        return _verdict(answer_fault(record, accepted))
    if not accepted or not task.functions:
        raise ValueError(
            f'task "{task.id}": category {task.category} needs a ground truth and function docs'
        )
    return _verdict(
        format_fault(record)
        or calls_fault(task, record, accepted, underscore_to_dot=underscore_to_dot)
    )


def calls_fault(
    task: Task,
    record: Any,
    truth: Truth,
    *,
    underscore_to_dot: bool = False,
    argument_fault: ArgumentChecker | None = None,
) -> Fault | None:
    """Return why a well-formed record of calls is refused; by another rule for arguments than
    BFCL's where given.
    """
    kind = kind_of(task.category)
    checker = CallChecker(
        task.functions,
        argument_fault=argument_fault or LANGUAGES[language_of(task.category)],
        underscore_to_dot=underscore_to_dot,
    )
    try:
        if kind == "simple":
            return checker.simple(record, truth)
        return (
            checker.multiple(record, truth)
            if kind == "multiple"
            else checker.parallel(record, truth)
        )
    except ValueError as error:
        raise ValueError(f'task "{task.id}": {error}') from None


def _verdict(fault: Fault | None) -> Verdict:
    return Verdict(False, 0.0, *fault) if fault else _VALID
