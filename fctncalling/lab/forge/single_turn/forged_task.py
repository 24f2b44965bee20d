"""A single-turn task as it is forged, before it is an entry of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class NoSuchTask(Exception):
    """A draw that gives no task: another one is drawn."""


@dataclass(frozen=True)
class SingleTurnTask:
    """What was drawn: a question, function docs and what is accepted."""

    question: str
    functions: list[dict[str, Any]]
    ground_truth: list[dict[str, dict[str, list[Any]]]] | None
    provenance: dict[str, Any]
    system: str = ""  # a system message in front of the question
