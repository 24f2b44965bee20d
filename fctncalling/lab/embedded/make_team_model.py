"""Build the small model of the job `--env_name team`.

`python -m fctncalling.lab.embedded.make_team_model --help`.

A small Llama-configuration model is fitted to episodes of a demonstrator who plays every role:
first a careful one, so that it learns to say what it knows and what it hears, then a hasty one, who
often says the usual city, or takes the usual box, instead. What that one gets wrong, reinforcement
learning has to mend, in both roles.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fctncalling.data.types import Task
from fctncalling.envs.team import TeamEnv
from fctncalling.envs.teams.parcels import BOXES, CITIES, PEOPLE, THINGS, parcel_tasks
from fctncalling.lab.embedded.model_maker import (
    TINY_SHAPE,
    Lesson,
    ModelMaker,
    NewModel,
    demonstration_texts,
    play_demonstrations,
    run_maker,
)
from fctncalling.training.teams import TABLE_SIZE

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord
    from fctncalling.algorithms.policy.chat_template import ChatTemplate


_REQUEST = re.compile(r"Send the (\w+) to (\w+)\.")
_PLAN = re.compile(r"planner: (\w+), \w+ (\w+)")
_HABITS = {
    "addresses": (PEOPLE[len(PEOPLE) // 2 :], CITIES[0]),
    "boxes": (THINGS[len(THINGS) // 2 :], BOXES[0]),
}
"""Piece of knowledge -> keys at which the hasty one does not look, and what it says instead."""


class TeamDemonstrator:
    """Demonstrator of all roles of parcel tasks: `(task id, turn, step, info) -> text`.

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


MAX_EPISODE_TOKENS = 256
VOCABULARY_SIZE = 720  # so that every word of the tasks is one token
TEAMS = {"parcels": 0.7, "parcels_alone": 0.3}  # built-in team -> share of the demonstrations
HASTY_RATE = 0.9


def lessons(template: ChatTemplate, num_tasks: int, seed: int) -> Iterator[Lesson]:
    """Yield careful episodes, then hasty ones."""
    tasks = parcel_tasks("train", num_tasks, seed=seed, table_size=TABLE_SIZE)
    yield Lesson(demonstrations(template, tasks, TeamDemonstrator(tasks)), 300, lr=5e-3)
    hasty = TeamDemonstrator(tasks, hasty=HASTY_RATE, seed=seed)
    yield Lesson(demonstrations(template, tasks, hasty), 150, lr=2e-3)


def demonstrations(
    template: ChatTemplate, tasks: Sequence[Task], script: TeamDemonstrator
) -> list[EpisodeRecord]:
    """Play a demonstrator's episodes, some of them as a team and some alone."""
    records: list[EpisodeRecord] = []
    first = 0
    for team, share in TEAMS.items():
        last = first + round(share * len(tasks))
        records += play_demonstrations(
            partial(TeamEnv, team=team, tasks=tasks),
            script,
            template,
            [task.id for task in tasks[first:last]],
            max_episode_tokens=MAX_EPISODE_TOKENS,
        )
        first = last
    return records


def tokenizer_texts(num_tasks: int, seed: int) -> Iterator[str]:
    """Yield the texts of a careful demonstrator's episodes."""
    tasks = parcel_tasks("train", min(num_tasks, 400), seed=seed, table_size=TABLE_SIZE)
    script, ids = TeamDemonstrator(tasks), [task.id for task in tasks]
    for team in TEAMS:
        yield from demonstration_texts(TeamEnv(team=team, tasks=tasks), script, ids)


if __name__ == "__main__":
    start = NewModel({**TINY_SHAPE, "num_hidden_layers": 2}, VOCABULARY_SIZE, tokenizer_texts)
    makers = {"team": ModelMaker(start, lessons, num_tasks=3000)}
    raise SystemExit(run_maker("make_team_model", __doc__, makers))
