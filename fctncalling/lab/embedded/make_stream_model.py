"""Build the small model that the stream tasks start from.

`python -m fctncalling.lab.embedded.make_stream_model --help`.

A small Llama-configuration model is fitted to episodes of a demonstrator: first a careful one, so
that it learns to read and to copy, then one that errs at a known rate everywhere and has a firm
habit. What that one gets wrong, reinforcement learning has to mend, call by call.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.lab.embedded.demonstrator import demonstrations, parse_truth_call
from fctncalling.lab.embedded.make_tasks import EMBEDDED
from fctncalling.lab.embedded.model_maker import (
    NEW_TOKENIZER,
    ModelMaker,
    demonstration_texts,
    learn,
    load_entries,
    loaded_tokenizer,
    make_model,
)
from fctncalling.lab.embedded.stream_tasks import HABIT, LESSON, ErrandPool, stream_entries
from fctncalling.lab.embedded.vocabulary import render, wording

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from fctncalling.algorithms.policy.chat_template import ChatTemplate

HABIT_RATE = 0.7  # of writing into a file before it is saved
SLIP_RATE = 0.1  # of the other verb, and of the other folder, anywhere
BATCH_SIZE = 12  # episodes
MAX_EPISODE_TOKENS = 512
MODEL_SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "initializer_range": 0.125,  # hidden_size ** -0.5; with the default, 0.02, copying forms late
}
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


def build(
    *,
    tokenizer: Path | None,
    seed: int,
    num_tasks: int,
    careful_steps: int,
    settling_steps: int,
    careless_steps: int,
) -> tuple[LlamaForCausalLM, Any]:
    """Build model and tokenizer."""
    tasks = training_tasks(num_tasks, seed=seed, errands=LESSON)
    words = new_tokenizer(tasks) if tokenizer is None else loaded_tokenizer(tokenizer)
    model, template = make_model(words, seed=seed, shape=MODEL_SHAPE)
    careful = demonstrations(
        tasks, StreamDemonstrator(tasks), template, max_episode_tokens=MAX_EPISODE_TOKENS
    )
    learn(model, careful, careful_steps, lr=4e-3, batch_size=BATCH_SIZE)
    learn(model, careful, settling_steps, lr=1e-3, order_seed=1, batch_size=BATCH_SIZE)
    if careless_steps:
        learn_slips(model, template, seed=seed, num_steps=careless_steps)
    return model, words


def learn_slips(
    model: LlamaForCausalLM, template: ChatTemplate, *, seed: int, num_steps: int
) -> None:
    """Teach the slips and the habit, on short tasks, each once."""
    tasks = training_tasks(num_steps * BATCH_SIZE, seed=seed, errands=HABIT)
    careless = StreamDemonstrator(tasks, seed=seed, careful=False)
    records = demonstrations(tasks, careless, template, max_episode_tokens=MAX_EPISODE_TOKENS)
    learn(model, records, num_steps, lr=8e-4, batch_size=BATCH_SIZE)


def training_tasks(num_tasks: int, *, seed: int, errands: ErrandPool) -> list[Task]:
    """Load fresh tasks of the training split, as a user's file is loaded."""
    return load_entries(stream_entries("train", num_tasks, seed=seed, errands=errands))


def new_tokenizer(tasks: Sequence[Task]) -> Any:
    """Train a tokenizer on the texts of careful episodes."""
    from fctncalling.lab.embedded.tokenizer import train_tokenizer

    chosen = tasks[:600]
    env, script = FunctionCallingEnv(tasks=chosen), StreamDemonstrator(chosen)
    texts = demonstration_texts(env, script, [task.id for task in chosen])
    return train_tokenizer(texts, vocabulary_size=VOCABULARY_SIZE)


MAKER = ModelMaker(
    "fctncalling.lab.embedded.make_stream_model",
    __doc__,
    build,
    {
        "tokenizer": (None, NEW_TOKENIZER),
        "seed": (1, "seed of tasks, slips, weights and order"),
        "num_tasks": (6000, "tasks to show"),
        "careful_steps": (1500, "steps on careful ones"),
        "settling_steps": (500, "more at a lower rate"),
        "careless_steps": (300, "steps on careless ones"),
    },
    EMBEDDED / "stream_model",
)

if __name__ == "__main__":
    raise SystemExit(MAKER.main())
