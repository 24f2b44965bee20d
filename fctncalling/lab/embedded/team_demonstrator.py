"""Scripted demonstrations for the team job."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fctncalling.data.types import Task
from fctncalling.envs.teams.parcels import BOXES, CITIES, PEOPLE, THINGS

_REQUEST = re.compile(r"Send the (\w+) to (\w+)\.")
_PLAN = re.compile(r"planner: (\w+), \w+ (\w+)")
_HABITS = {
    "addresses": (PEOPLE[len(PEOPLE) // 2 :], CITIES[0]),
    "boxes": (THINGS[len(THINGS) // 2 :], BOXES[0]),
}
"""Piece of knowledge -> keys at which the hasty one does not look, and what it says instead."""


class TeamDemonstrator:
    """Plays every role of the parcel tasks: `(task id, turn, step, info) -> text`.

    `hasty`: of half of the people, and of half of the things, the share at which it says the usual
    city, or box, without a look at what it knows.
    """

    def __init__(self, tasks: Sequence[Task], *, hasty: float = 0.0, seed: int = 0) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._hasty = hasty
        self._seed = seed

    def __call__(self, task_id: str, turn: int, step: int, info: Mapping[str, Any]) -> str:
        """Return the message of the role in turn."""
        task, heard = self._tasks[task_id], str(info["messages"][-1]["content"])
        if plan := _PLAN.search(heard):
            return _send(plan[1], self._found(task, "boxes", plan[1]), plan[2])
        request = _REQUEST.search(heard)
        assert request is not None  # as parcels are worded
        city = self._found(task, "addresses", request[2])
        if info["role"] == "planner":
            return f"{request[1]}, {request[2]} {city}"
        return _send(request[1], self._found(task, "boxes", request[1]), city)

    def _found(self, task: Task, table: str, key: str) -> str:
        keys, usual = _HABITS[table]
        if key in keys:
            name = zlib.crc32(f"{task.id}/{table}".encode())
            if np.random.default_rng([self._seed, name]).random() < self._hasty:
                return usual
        lines: str = task.extra["knowledge"][table]
        return dict(line.split() for line in lines.split(", "))[key]


def _send(thing: str, box: str, city: str) -> str:
    return f"[send(thing='{thing}', box='{box}', city='{city}')]"
