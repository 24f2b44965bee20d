"""Build the small model that the stream tasks start from.

`python -m fctncalling.lab.embedded.make_stream_model --help`.

A small Llama-configuration model is fitted to episodes of a demonstrator: first a careful one, so
that it learns to read and to copy, then one that errs at a known rate everywhere and has a firm
habit. What that one gets wrong, reinforcement learning has to mend, call by call.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.lab.embedded.demonstrator import demonstrations, parse_truth_call
from fctncalling.lab.embedded.model_maker import (
    TINY_SHAPE,
    Lesson,
    ModelMaker,
    NewModel,
    demonstration_texts,
    load_entries,
    run_maker,
)
from fctncalling.lab.embedded.stream_tasks import HABIT, LESSON, ErrandPool, stream_entries
from fctncalling.lab.embedded.vocabulary import render, wording

if TYPE_CHECKING:
    from fctncalling.algorithms.policy.chat_template import ChatTemplate

HABIT_RATE = 0.7  # of writing into a file before it is saved
SLIP_RATE = 0.1  # of the other verb, and of the other folder, anywhere
BATCH_SIZE = 12  # episodes
CARELESS_STEPS = 300
MAX_EPISODE_TOKENS = 512
VOCABULARY_SIZE = 720  # so that every word of the tasks is one token
Calls = list[tuple[str, dict[str, Any]]]


class StreamDemonstrator:
    """Scripted policy: `demonstrator(task_id, turn, step, info)` returns its next message.

    It makes the turn's calls one by one, then ends the turn. `careful` is the oracle. Each slip
    depends on seed, task, turn and step alone.
    """

    def __init__(self, tasks: Sequence[Task], *, seed: int = 0, careful: bool = True) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._seed = seed
        self._careful = careful

    def __call__(self, task_id: str, turn: int, step: int, info: Mapping[str, Any]) -> str:
        """Return the next call, or the word that ends the turn."""
        task = self._tasks[task_id]
        calls = [parse_truth_call(text) for text in (task.ground_truth or ())[turn]]
        if not self._careful:
            self._write_first(calls, random.Random(f"{self._seed} {task_id} {turn}"))
        if step >= len(calls):
            return str(wording()["replies"]["done"])
        name, arguments = calls[step]
        if not self._careful and name != "echo":
            draw = random.Random(f"{self._seed} {task_id} {turn} {step}")
            name, arguments = _slipped(task, name, arguments, draw)
        return f"[{render(name, arguments)}]"

    def _write_first(self, calls: Calls, draw: random.Random) -> None:
        """Write into a file before it is saved unchanged: the habit."""
        for place in range(len(calls) - 1):
            (name, save), (then, write) = calls[place : place + 2]
            saves = name == "cp" and then == "echo" and save["source"] == write["file_name"]
            if saves and draw.random() < HABIT_RATE:
                calls[place : place + 2] = calls[place + 1], calls[place]


def _slipped(
    task: Task, name: str, arguments: Mapping[str, Any], draw: random.Random
) -> tuple[str, dict[str, Any]]:
    """Return a call, sometimes with the wrong verb or folder."""
    if draw.random() < SLIP_RATE:
        name = "cp" if name == "mv" else "mv"
    destination = arguments["destination"]
    if draw.random() < SLIP_RATE:
        (destination,) = folders(task) - {destination}
    return name, {**arguments, "destination": destination}


def folders(task: Task) -> set[str]:
    """Return the folders of a task."""
    contents = task.initial_config["GorillaFileSystem"]["root"]["workspace"]["contents"]
    return {name for name, entry in contents.items() if entry["type"] == "directory"}


def lessons(template: ChatTemplate, num_tasks: int, seed: int) -> Iterator[Lesson]:
    """Yield careful episodes, at two rates, then slips and the habit on short tasks, each once."""
    tasks = training_tasks(num_tasks, seed=seed, errands=LESSON)
    limit = {"max_episode_tokens": MAX_EPISODE_TOKENS}
    careful = demonstrations(tasks, StreamDemonstrator(tasks), template, **limit)
    yield Lesson(careful, 1500, lr=4e-3, batch_size=BATCH_SIZE)
    yield Lesson(careful, 500, lr=1e-3, order_seed=1, batch_size=BATCH_SIZE)
    tasks = training_tasks(CARELESS_STEPS * BATCH_SIZE, seed=seed, errands=HABIT)
    script = StreamDemonstrator(tasks, seed=seed, careful=False)
    careless = demonstrations(tasks, script, template, **limit)
    yield Lesson(careless, CARELESS_STEPS, lr=8e-4, batch_size=BATCH_SIZE)


def training_tasks(num_tasks: int, *, seed: int, errands: ErrandPool) -> list[Task]:
    """Load fresh tasks of the training split, as a user's file is loaded."""
    return load_entries(stream_entries("train", num_tasks, seed=seed, errands=errands))


def tokenizer_texts(num_tasks: int, seed: int) -> Iterator[str]:
    """Yield the texts of careful episodes."""
    tasks = training_tasks(min(num_tasks, 600), seed=seed, errands=LESSON)
    env, script = FunctionCallingEnv(tasks=tasks), StreamDemonstrator(tasks)
    return demonstration_texts(env, script, [task.id for task in tasks])


if __name__ == "__main__":
    start = NewModel(TINY_SHAPE, VOCABULARY_SIZE, tokenizer_texts)
    makers = {"stream_model": ModelMaker(start, lessons, num_tasks=6000)}
    raise SystemExit(run_maker("make_stream_model", __doc__, makers))
