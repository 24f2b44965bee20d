"""A forged task as an entry of a file, with what the ledger says of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
