"""Own scorer: BFCL's verdict on a line that any scorer is given, from that line alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fctncalling.data.types import FunctionDoc, Task
from fctncalling.envs.judging.judge import judge
from fctncalling.lab.conformance.made_answers import ANSWER_FORM


class OwnScorer:
    """Scorer of lines; lines of one task that follow each other share its replayed truth."""

    def __init__(self) -> None:
        self._task: Task | None = None

    def valid(self, record: Mapping[str, Any]) -> bool:
        """Return whether the answer of a line is valid."""
        if self._task is None or self._task.id != record["task"]["id"]:
            self._task = task_of(record)
        return judge(self._task, record["answer"]["text"], ANSWER_FORM).valid


def task_of(record: Mapping[str, Any]) -> Task:
    """Return the task of a line."""
    entry = record["task"]
    docs = (
        FunctionDoc(doc["name"], doc["description"], doc["parameters"]) for doc in entry["function"]
    )
    return Task(
        id=entry["id"],
        category=record["category"],
        question=entry["question"],
        functions=tuple(docs),
        ground_truth=entry["ground_truth"],
        initial_config=entry.get("initial_config", {}),
        involved_classes=entry.get("involved_classes", ()),
        missed_functions={int(at): names for at, names in entry.get("missed_function", {}).items()},
    )
