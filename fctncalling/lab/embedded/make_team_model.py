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
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fctncalling.data.types import Task
from fctncalling.envs.team import TeamEnv
from fctncalling.envs.teams.parcels import BOXES, CITIES, PEOPLE, THINGS, parcel_tasks
from fctncalling.lab.embedded.model_maker import (
    NEW_TOKENIZER,
    ModelMaker,
    demonstration_texts,
    learn,
    loaded_tokenizer,
    make_model,
    play_demonstrations,
)
from fctncalling.training.teams import TABLE_SIZE

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

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
MODEL_SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "initializer_range": 0.125,  # hidden_size ** -0.5; with the default, 0.02, copying forms late
}
VOCABULARY_SIZE = 720  # so that every word of the tasks is one token
TEAMS = {"parcels": 0.7, "parcels_alone": 0.3}  # built-in team -> share of the demonstrations


def build(
    *,
    tokenizer: Path | None,
    seed: int,
    num_tasks: int,
    careful_steps: int,
    hasty_steps: int,
    hasty: float,
) -> tuple[LlamaForCausalLM, Any]:
    """Build model and tokenizer."""
    tasks = parcel_tasks("train", num_tasks, seed=seed, table_size=TABLE_SIZE)
    words = new_tokenizer(tasks) if tokenizer is None else loaded_tokenizer(tokenizer)
    model, template = make_model(words, seed=seed, shape=MODEL_SHAPE)
    careful = demonstrations(template, tasks, TeamDemonstrator(tasks))
    learn(model, careful, careful_steps, lr=5e-3)
    if hasty_steps:
        habits = TeamDemonstrator(tasks, hasty=hasty, seed=seed)
        learn(model, demonstrations(template, tasks, habits), hasty_steps, lr=2e-3)
    return model, words


def demonstrations(
    template: ChatTemplate, tasks: Sequence[Task], script: TeamDemonstrator
) -> list[EpisodeRecord]:
    """Play a demonstrator's episodes, with the ids and masks of training.

    Some of them as a team and some alone.
    """
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


def new_tokenizer(tasks: Sequence[Task]) -> Any:
    """Train a tokenizer on the texts of a careful demonstrator's episodes."""
    from fctncalling.lab.embedded.tokenizer import train_tokenizer

    chosen = tasks[:400]
    script, ids = TeamDemonstrator(chosen), [task.id for task in chosen]
    texts = (
        text
        for team in TEAMS
        for text in demonstration_texts(TeamEnv(team=team, tasks=chosen), script, ids)
    )
    return train_tokenizer(texts, vocabulary_size=VOCABULARY_SIZE)


MAKER = ModelMaker(
    "fctncalling.lab.embedded.make_team_model",
    __doc__,
    build,
    {
        "tokenizer": (None, NEW_TOKENIZER),
        "seed": (1, "seed of tasks, habits, weights and order"),
        "num_tasks": (3000, "tasks to show"),
        "careful_steps": (300, "steps on careful episodes"),
        "hasty_steps": (150, "steps on hasty ones after it"),
        "hasty": (0.9, "share of half of the people and things with the usual city and box"),
    },
)

if __name__ == "__main__":
    raise SystemExit(MAKER.main())
