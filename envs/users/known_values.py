"""Values that a simulated user knows from its task; never calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fctncalling.checkers.clarify import Scalar, Value, is_mentioned
from fctncalling.data.types import Call, Task
from fctncalling.envs.judging.oracle import oracle_calls

USER_KNOWS = "user_knows"  # field of a task: {parameter: value}


def known_values(task: Task, turn: int = 0) -> dict[str, Value]:
    """Return the values that a task's user knows in a turn, by parameter.

    They are those of the task's field `user_knows`, lists and objects too; a task without it has
    those arguments of its ground truth, in this turn and the next, that are texts or numbers and
    that the user's own messages say somewhere. What tools return, a user cannot know.
    """
    ledger = task.extra.get(USER_KNOWS)
    if isinstance(ledger, Mapping):
        return {str(name): value for name, value in ledger.items() if value is not None}
    request = " ".join(_user_texts(task))
    values: dict[str, Value] = {}
    for call in _calls_of(task, turn):
        for name, value in call.arguments.items():
            if isinstance(value, Scalar) and is_mentioned(value, request):
                values.setdefault(name, value)
    return values


def _user_texts(task: Task) -> Iterator[str]:
    for messages in task.question:
        yield from (str(m.get("content", "")) for m in messages if m.get("role") == "user")


def _calls_of(task: Task, turn: int) -> list[Call]:
    """Return the truth's calls of a turn and the next; none if the truth has no calls."""
    if task.ground_truth is None or task.kind == "agentic":
        return []
    try:
        turns: Any = oracle_calls(task)
    except ValueError:  # a truth that no call can express
        return []
    wanted = turns[turn : turn + 2] if task.is_multi_turn else turns
    return [call for calls in wanted for call in calls]
