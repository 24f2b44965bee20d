"""A forged task as an entry of a file, with what the ledger says of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class ForgedEntry(NamedTuple):
    """An entry as `load_tasks` reads it, its ground truth and function docs inside."""

    entry: dict[str, Any]
    difficulty: float  # from 0 (one call, everything said) to 1
    provenance: dict[str, Any]  # where words, values and calls come from
    thrown_away: Mapping[str, int] = {}  # reason -> number of tasks thrown away in its place

    @property
    def user_texts(self) -> tuple[str, ...]:
        """What the user says, message by message."""
        return tuple(user_texts(self.entry["question"]))


def user_texts(question: Any) -> Iterator[str]:
    """Yield the user messages of an entry's turns."""
    for turn in question:
        for message in turn:
            if message["role"] == "user":
                yield message["content"]


class NoTaskDrawn(Exception):
    """A draw that gives no task: another one is drawn."""


@dataclass(frozen=True)
class SingleTurnTask:
    """Drawn task: a question, function docs and what is accepted."""

    question: str
    functions: list[dict[str, Any]]
    ground_truth: list[dict[str, dict[str, list[Any]]]] | None
    provenance: dict[str, Any]
    system: str = ""  # a system message in front of the question
