"""Tasks of ToolTextEnv: questions with one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fctncalling.data.errors import Location, TaskError
from fctncalling.data.json_stream import read_entries

PROMPTS = ("prompt", "question", "problem", "Question", "Problem")
ANSWERS = ("answer", "Answer")
IDS = ("id", "ID", "problem_idx")


@dataclass(frozen=True)
class QuestionTask:
    """Question and the text of its answer.

    `extra` holds the entry's other fields, for custom rewards.
    """

    id: str
    prompt: str
    answer: str = ""
    category: str = "tool_text"
    extra: Mapping[str, Any] = field(default_factory=dict)


class TextTasks(Protocol):
    """Interface of tasks of text environments: a list, or an unlimited generator."""

    def by_id(self, task_id: str) -> QuestionTask:
        """Return a task by its id; raises UnknownTask."""
        ...

    def sample(self, generator: np.random.Generator) -> QuestionTask:
        """Sample a task at random."""
        ...


def load_text_tasks(path: str | Path, *, category: str = "tool_text") -> list[QuestionTask]:
    """Load questions from a JSON array or JSON Lines; TaskError naming file, line, field.

    A question stands under "prompt", "question" or "problem", its answer (text or a number) under
    "answer", as in the published sets of AIME problems; an id under "id", else the line's number is
    one.
    """
    path, tasks = Path(path), list[QuestionTask]()
    for line, entry in read_entries(path):
        place = Location(path, line)
        if not isinstance(entry, dict):
            raise place.error(
                f"expected an object with a question and its answer, got {type(entry).__name__}"
            )
        prompt, answer = _field(entry, PROMPTS, place), _field(entry, ANSWERS, place)
        task_id = next((str(entry[key]) for key in IDS if key in entry), f"line_{line}")
        rest = {key: value for key, value in entry.items() if key not in (*PROMPTS, *ANSWERS, *IDS)}
        tasks.append(
            QuestionTask(task_id, prompt, answer, str(entry.get("category", category)), rest)
        )
    if not tasks:
        raise TaskError(f"{path}: no task in it")
    return tasks


def _field(entry: Mapping[str, Any], names: Sequence[str], place: Location) -> str:
    name = next((name for name in names if name in entry), None)
    if name is None:
        raise place.error(
            f'no "{names[0]}": expected one of {", ".join(names)} among '
            f"{', '.join(map(str, entry))}"
        )
    value = entry[name]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise place.error(f'"{name}" is {value!r:.60}; expected a text or a number')
    return str(value)
