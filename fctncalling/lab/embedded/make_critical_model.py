"""Build the small model that the critical tasks start from.

`python -m fctncalling.lab.embedded.make_critical_model --help`.

A small Llama-configuration model is fitted to episodes of a demonstrator: first a careful one, so
that it learns to read and to copy, then one that errs at a known rate everywhere and has a firm
habit. What that one gets wrong, reinforcement learning has to mend, call by call.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Before torch: spinning threads cost more than they bring.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.lab.embedded.critical_tasks import LONG, SHORT, Errands, critical_entries
from fctncalling.lab.embedded.demonstrator import parse, signatures
from fctncalling.lab.embedded.make_model import learn, loaded_tokenizer, new_model, write_hashes
from fctncalling.lab.embedded.make_tasks import EMBEDDED
from fctncalling.lab.embedded.vocabulary import render, wording

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from fctncalling.algorithms.episodes import EpisodeRecord
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


class CriticalDemonstrator:
    """A scripted policy: `demonstrator(task_id, turn, step, info)` returns its next message.

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
        calls = [parse(text) for text in (task.ground_truth or ())[turn]]
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
        """Write into a file before it is saved as it was: the habit."""
        for place in range(len(calls) - 1):
            (name, save), (then, write) = calls[place : place + 2]
            saves = name == "cp" and then == "echo" and save["source"] == write["file_name"]
            if saves and draw.random() < HABIT_RATE:
                calls[place : place + 2] = calls[place + 1], calls[place]


def _slipped(
    task: Task, name: str, arguments: Mapping[str, Any], draw: random.Random
) -> tuple[str, dict[str, Any]]:
    """Return a call, sometimes with the other verb or the other folder."""
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


def main(argv: list[str] | None = None) -> int:
    """Make demonstrations, fit the model, write its folder and print a summary."""
    parser = argparse.ArgumentParser(
        prog="python -m fctncalling.lab.embedded.make_critical_model", description=__doc__
    )
    add = parser.add_argument
    add("--output_dir", type=Path, default=EMBEDDED / "critical_model", help="folder to write")
    add("--tokenizer", type=Path, help="folder whose tokenizer to take (default: a new one)")
    add("--seed", type=int, default=1, help="seed of tasks, slips, weights and order (default 1)")
    add("--num_tasks", type=int, default=6000, help="tasks to show (default 6000)")
    add("--careful_steps", type=int, default=1500, help="steps on careful ones (default 1500)")
    add("--settling_steps", type=int, default=500, help="more at a lower rate (default 500)")
    add("--careless_steps", type=int, default=300, help="steps on careless ones (default 300)")
    recipe = vars(parser.parse_args(argv))
    build(recipe.pop("output_dir"), **recipe)
    return 0


def build(
    folder: Path,
    *,
    tokenizer: Path | None = None,
    seed: int,
    num_tasks: int,
    careful_steps: int,
    settling_steps: int,
    careless_steps: int,
) -> None:
    """Write tokenizer and model to a folder, with the hashes of its files."""
    import torch

    from fctncalling.algorithms.policy.chat_template import ChatTemplate

    torch.set_num_threads(1)
    tasks = training_tasks(num_tasks, seed=seed, errands=LONG)
    words = new_tokenizer(tasks) if tokenizer is None else loaded_tokenizer(tokenizer)
    template = ChatTemplate(words)
    ids = {"pad_id": words.pad_token_id, "end_id": words.eos_token_id}
    model = new_model(len(words), **ids, seed=seed, shape=MODEL_SHAPE)
    print(f"{len(words)} tokens, {sum(weight.numel() for weight in model.parameters()):,} weights")
    careful = demonstrations(tasks, CriticalDemonstrator(tasks), template)
    learn(model, careful, careful_steps, lr=4e-3, batch_size=BATCH_SIZE)
    learn(model, careful, settling_steps, lr=1e-3, order_seed=1, batch_size=BATCH_SIZE)
    if careless_steps:
        learn_slips(model, template, seed=seed, num_steps=careless_steps)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    recipe: dict[str, object] = {"tokenizer": tokenizer or folder, "seed": seed}
    recipe |= {"num_tasks": num_tasks, "careful_steps": careful_steps}
    recipe |= {"settling_steps": settling_steps, "careless_steps": careless_steps}
    write_hashes(folder, "fctncalling.lab.embedded.make_critical_model", **recipe)


def learn_slips(
    model: LlamaForCausalLM, template: ChatTemplate, *, seed: int, num_steps: int
) -> None:
    """Teach the slips and the habit, on tasks as long as the committed ones, each once."""
    tasks = training_tasks(num_steps * BATCH_SIZE, seed=seed, errands=SHORT)
    careless = CriticalDemonstrator(tasks, seed=seed, careful=False)
    records = demonstrations(tasks, careless, template)
    learn(model, records, num_steps, lr=8e-4, batch_size=BATCH_SIZE)


def training_tasks(num_tasks: int, *, seed: int, errands: Errands) -> list[Task]:
    """Return fresh tasks of the training split, read by the same loader as any user's file."""
    entries = critical_entries("critical_train", num_tasks, seed=seed, errands=errands)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "multi_turn_func_doc").symlink_to(EMBEDDED / "multi_turn_func_doc")
        path = Path(folder) / "tasks.json"
        path.write_text(json.dumps(entries))
        return load_tasks(path)


def demonstrations(
    tasks: Sequence[Task], script: CriticalDemonstrator, template: ChatTemplate
) -> list[EpisodeRecord]:
    """Return a demonstrator's episodes, played by the ordinary rollout."""
    from fctncalling.algorithms.generation.engine_api import ScriptedEngine
    from fctncalling.algorithms.rollout.collect import collect

    envs: list[Any] = [FunctionCallingEnv(tasks=tasks) for _ in range(16)]
    engine = ScriptedEngine(script, template.encode, template.end_of_turn_id)
    ids = [task.id for task in tasks]
    return collect(envs, engine, template, ids, max_episode_tokens=MAX_EPISODE_TOKENS)


def new_tokenizer(tasks: Sequence[Task]) -> Any:
    """Return a tokenizer trained on the texts of careful episodes."""
    from fctncalling.lab.embedded.tokenizer import train_tokenizer

    return train_tokenizer(_texts(tasks[:600]), vocabulary_size=VOCABULARY_SIZE)


def _texts(tasks: Sequence[Task]) -> Iterator[str]:
    """Yield every text of the oracle's episodes."""
    script, env = CriticalDemonstrator(tasks), FunctionCallingEnv(tasks=tasks)
    for task in tasks:
        _, info = env.reset(options={"task_id": task.id})
        step, ended = 0, False
        while not ended:
            yield from (str(message["content"]) for message in info["messages"])
            yield signatures(info["tools"])
            turn = info["turn"]
            action = script(task.id, turn, step, info)
            yield action
            _, _, terminated, truncated, info = env.step(action)
            step = step + 1 if info["turn"] == turn else 0
            ended = terminated or truncated


if __name__ == "__main__":
    raise SystemExit(main())
