"""Checkers: pure functions from (task, record, truth) to a verdict, chosen by BFCL's category."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fctncalling.checkers.agentic import answer_fault
from fctncalling.checkers.ast_checker import (
    ArgumentChecker,
    CallChecker,
    Truth,
    format_fault,
    irrelevance_fault,
    missing_call_fault,
)
from fctncalling.checkers.clarify import question_fault
from fctncalling.checkers.java_values import JAVA_ARGUMENTS
from fctncalling.checkers.javascript_values import JAVASCRIPT_ARGUMENTS
from fctncalling.checkers.multi_turn import check_turns
from fctncalling.checkers.python_values import Fault, python_argument_fault
from fctncalling.data.types import Task, Verdict

__all__ = ["ARGUMENT_CHECKERS", "calls_fault", "check"]

ARGUMENT_CHECKERS: dict[str, ArgumentChecker] = {
    "python": python_argument_fault,
    "java": JAVA_ARGUMENTS.fault,
    "javascript": JAVASCRIPT_ARGUMENTS.fault,
}
"""Language of a category's arguments -> how they are checked."""

_VALID = Verdict(True, 1.0)
_RELEVANCE: dict[str, Callable[[Any], Fault | None]] = {
    "irrelevance": irrelevance_fault,
    "relevance": missing_call_fault,
}


def check(
    task: Task, record: Any, truth: Sequence[Any] | None = None, *, underscore_to_dot: bool = False
) -> Verdict:
    """Check a record of one task: return the verdict.

    Single turn: `record` is the decoder's list of {name: {parameter: value}}, None where it failed;
    `truth` defaults to the task's own. Multi turn: both are sequences of TurnResults. Agentic:
    `record` is the last message that calls nothing. Clarify: a ClarifyRecord.
    `underscore_to_dot` expects the names in which dots became underscores, as interfaces with
    restricted names are offered them. Raises UnsupportedCategory, and ValueError for a task without
    a usable ground truth.
    """
    kind = task.kind
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
    if kind == "clarify":
        fault = format_fault(record.calls) or calls_fault(
            task, record.calls, accepted, underscore_to_dot=underscore_to_dot
        )
        return _verdict(fault or question_fault(task, record))
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
    """Return the fault of a well-formed record of calls, None if they are right.

    `argument_fault` replaces BFCL's rule for arguments.
    """
    kind = task.kind
    checker = CallChecker(
        task.functions,
        argument_fault=argument_fault or ARGUMENT_CHECKERS[task.language],
        underscore_to_dot=underscore_to_dot,
    )
    try:
        if kind == "simple":
            return checker.simple_fault(record, truth)
        if kind == "multiple" or (kind == "clarify" and len(truth) == 1):
            return checker.multiple_fault(record, truth)
        return checker.parallel_fault(record, truth)
    except ValueError as error:
        raise ValueError(f'task "{task.id}": {error}') from None


def _verdict(fault: Fault | None) -> Verdict:
    return Verdict(False, 0.0, *fault) if fault else _VALID
