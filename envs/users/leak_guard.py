"""Leak guard: whether a user's answer gives away the calls of a task."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fctncalling.checkers.said_values import is_said
from fctncalling.data.types import Task
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.users.known_values import known_values

REFUSAL = "I can only tell you what I want, not how to do it."
"""What stands in the place of an answer that gave calls away."""
_SHORTEST = 4  # characters of a value that is no part of ordinary speech


def gives_away(reply: str, task: Task, turn: int = 0) -> bool:
    """Whether an answer has what a user must not say.

    That is a text that reads as calls, the name of an offered function where it cannot be an
    ordinary word, a parameter with a value assigned to it, or a value of the ground truth that the
    user does not know.
    """
    return (
        _reads_as_calls(reply)
        or any(_is_named(doc.name, reply) for doc in task.functions)
        or any(_is_assigned(name, reply) for doc in task.functions for name in _parameters(doc))
        or any(is_said(value, reply) for value in _unknown_values(task, turn))
    )


def _reads_as_calls(reply: str) -> bool:
    try:
        return bool(get_handler("auto").decode(reply))
    except Exception:  # what no decoder reads is no call
        return False


def _is_named(name: str, reply: str) -> bool:
    is_word = name.isalpha() and name.islower()  # "translate" is what a user may say
    called = r"\s*\(" if is_word else ""
    return re.search(rf"\b{re.escape(name)}\b{called}", reply) is not None


def _is_assigned(name: str, reply: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b[\"']?\s*=", reply) is not None or (
        re.search(rf"[\"']{re.escape(name)}[\"']\s*:", reply) is not None
    )


def _parameters(doc: Any) -> list[str]:
    return list(doc.parameters.get("properties", {}))


def _unknown_values(task: Task, turn: int) -> Iterator[str]:
    """Yield the texts of the ground truth that neither the user knows nor anybody may guess."""
    if task.ground_truth is None or task.kind == "agentic":
        return
    try:
        turns = oracle_calls(task)
    except ValueError:
        return
    said = " ".join(str(m.get("content", "")) for messages in task.question for m in messages)
    known = {str(value) for value in known_values(task, turn).values()}
    for calls in turns:
        for call in calls:
            for value in call.arguments.values():
                is_text = isinstance(value, str) and len(value) >= _SHORTEST
                if is_text and value not in known and not is_said(value, said):
                    yield value
