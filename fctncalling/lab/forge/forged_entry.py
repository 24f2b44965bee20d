"""A forged task as an entry of a file, with what the ledger says of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fctncalling.data.types import FunctionDoc, Task
from fctncalling.envs.users.rule_user import RuleUser


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


def atoms(value: Any) -> Iterator[Any]:
    """Yield what stands in the lists and dicts of a value, at any depth."""
    if isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from atoms(each)
    else:
        yield value


def entry_task(entry: Mapping[str, Any]) -> Task:
    """Return an entry as the task that it is read as."""
    return Task(
        entry["id"],
        entry["id"].rpartition("_")[0],
        entry["question"],
        functions=[
            FunctionDoc(doc["name"], doc["description"], doc["parameters"])
            for doc in entry.get("function", ())
            if isinstance(doc, dict)
        ],
        ground_truth=entry.get("ground_truth"),
        initial_config=entry.get("initial_config", {}),
        involved_classes=entry.get("involved_classes", ()),
        extra={key: entry[key] for key in ("user_knows", "missing_parameters") if key in entry},
    )


HARD_POINTS = 20.0  # at which the difficulty is two thirds


def difficulty(functions: Sequence[Any], truth: Sequence[Mapping[str, Any]] | None) -> float:
    """Return how much has to be right, from 0 (one call, one argument) towards 1.

    Points: an argument said in the question 1, one to leave out a half, an item of a list or a
    member of a dict 1, each call 1, each further function offered a half.
    """
    points = 0.5 * (len(functions) - 1)
    for call in truth or ():
        points += 1.0
        for accepted in call.values():
            points += sum(_points(values) for values in accepted.values())
    return round(1.0 - math.exp(-max(0.0, points - 2.0) / HARD_POINTS), 3)


def _points(values: list[Any]) -> float:
    if values[0] == "":
        return 0.5
    return float(len(values[0])) if isinstance(values[0], list | dict) else 1.0


def user_answer(task: Task, question: str, register: str) -> str:
    """Return what the rule-based user answers to a question."""
    about = {"task_id": task.id, "category": task.category, "turn": 0, "task": task}
    conversation = [*task.question[0], {"role": "assistant", "content": question}]
    return RuleUser(register)(conversation, about) or ""


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
