"""Write a small working project: tasks, a stateful tool class, a reward, settings and tests.

The folder is a place to begin from: train on it, look at the run and score the model by the three
commands that are printed, then put tasks and tools of your own in place of the lamps. Exit code 0,
or 2 if the folder is not empty.

example:
  fctncalling init my_project
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.parser import add_json_switch, print_error

RUN = "results/lamps/embedded/tasks/TPPO"
TOOLS = "--tools Lamps=my_tools:Lamps"
NEXT = f"""\
cd {{folder}}
fctncalling train --config config.yaml
fctncalling view {RUN} {TOOLS}
fctncalling run --agent hf:{RUN}/checkpoints/last --dataset_path held_out.jsonl \\
    {TOOLS} --output answers.jsonl
Its tests: python -m pytest"""
ROOMS = ("kitchen", "hall", "office", "bedroom", "cellar", "garage", "attic", "porch")
LEVELS = (20, 40, 60, 80)
TOOLS = '''\
"""The tools of the tasks: a class whose public methods are the functions an agent may call."""


class Lamps:
    """The lamps of a house. Each episode gets a new instance with the task's scenario."""

    def _load_scenario(self, scenario: dict, long_context: bool = False) -> None:
        self.percent = dict(scenario.get("percent", {}))

    def switch_on(self, room: str) -> dict:
        """Switch the lamp of a room on, at full brightness.

        Args:
            room: The room's name.
        """
        return self.dim(room, 100)

    def dim(self, room: str, percent: int) -> dict:
        """Set how bright the lamp of a room is.

        Args:
            room: The room's name.
            percent: Brightness, 0 (off) to 100.
        """
        if room not in self.percent:
            return {"error": f"there is no lamp in the {room}"}
        if not 0 <= percent <= 100:
            return {"error": "percent: expected 0 to 100"}
        self.percent[room] = percent
        return {"room": room, "percent": percent}
'''
REWARD = '''\
"""The reward: called after every step with its record, and at the end with the official verdict."""


def reward(step, verdict) -> float:
    """Return 1 for a task that is solved, less a hundredth for every call."""
    solved = verdict is not None and verdict.valid
    return float(solved) - 0.01 * len(step.calls)
'''
CONFIG = """\
# fctncalling train --config config.yaml
dataset_path: tasks.jsonl
eval_dataset_path: held_out.jsonl  # played before and after, never learned from
tools: Lamps=my_tools:Lamps
reward: my_reward:reward
experiment_name: lamps
# The embedded model is made for the embedded tasks. For one of your own:
# model_name_or_path: path/to/model
# preset: 0.1B
sft_tasks: dataset              # first it reads how the tasks are solved,
sft_epochs: 20
sft_lr: 2e-3                    # a pretrained model takes a hundredth of it
num_updates: 10                 # then it learns from what it does itself
episodes_per_update: 32
eval_interval: 10
"""
TESTS = '''\
"""The tasks can be solved as they say, and in no other way. Run: python -m pytest"""

from pathlib import Path

from my_reward import reward
from my_tools import Lamps

from fctncalling import FunctionCallingEnv, StepRecord, Verdict, load_tasks

TASKS = load_tasks(Path(__file__).with_name("tasks.jsonl"), self_documented=["Lamps"])


def verdict_on(task, turns) -> Verdict:
    env = FunctionCallingEnv(tasks=[task], tools={"Lamps": Lamps})
    env.reset(options={"task_id": task.id})
    for calls in turns:
        if calls:
            env.step(f"[{', '.join(calls)}]")
        *_, info = env.step("Done.")
    return info["verdict"]


def test_the_ground_truth_solves_every_task():
    assert all(verdict_on(task, task.ground_truth).valid for task in TASKS)


def test_saying_nothing_solves_none():
    assert not any(verdict_on(task, [[] for _ in task.ground_truth]).valid for task in TASKS)


def test_the_reward_prefers_few_calls():
    solved, none = Verdict(True, 1.0), StepRecord(0, "Done.")
    assert reward(none, solved) > reward(StepRecord(0, "", calls=(None,)), solved) > 0
    assert reward(none, None) == 0
'''
FILES = {
    "my_tools.py": TOOLS,
    "my_reward.py": REWARD,
    "config.yaml": CONFIG,
    "test_tasks.py": TESTS,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new or an empty folder")
    add_json_switch(parser)


def run(args: argparse.Namespace) -> int:
    """Write the project; return 0, or 2 if it cannot be written."""
    folder: Path = args.folder
    try:
        if folder.exists() and any(folder.iterdir()):
            raise OSError("the folder is not empty: name a new one")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in {**task_files(), **FILES}.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        return print_error(f"{folder}: cannot be written: {error}")
    if args.json:
        print(json.dumps({"folder": str(folder), "files": [*task_files(), *FILES]}))
    else:
        print(f"{folder}: {', '.join([*task_files(), *FILES])}\n{NEXT.format(folder=folder)}")
    return 0


def task_files() -> dict[str, str]:
    """Return the files of tasks, by name: every fifth task is held out."""
    lines = [json.dumps(entry) + "\n" for entry in example_tasks()]
    held_out = lines[::5]
    learned = [line for line in lines if line not in held_out]
    return {"tasks.jsonl": "".join(learned), "held_out.jsonl": "".join(held_out)}


def example_tasks() -> Iterator[dict[str, Any]]:
    """Yield 40 tasks of one or two turns, as entries of BFCL's form with their ground truth."""
    for number in range(40):
        room, percent = ROOMS[number % 8], LEVELS[(number + number // 8) % 4]
        dim = f"dim(room={room!r}, percent={percent})"
        turns = [(f"Set the lamp in the {room} to {percent} percent.", dim)]
        if number % 2:
            turns.insert(0, (f"Switch on the lamp in the {room}.", f"switch_on(room={room!r})"))
        yield {
            "id": f"multi_turn_base_{number}",
            "question": [[{"role": "user", "content": words}] for words, _ in turns],
            "involved_classes": ["Lamps"],
            "initial_config": {"Lamps": {"percent": dict.fromkeys(ROOMS, 0)}},
            "ground_truth": [[call] for _, call in turns],
        }
