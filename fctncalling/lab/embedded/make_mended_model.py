"""Build the small model that the mended tasks start from.

`python -m fctncalling.lab.embedded.make_mended_model --help`.

It is the model of the stream tasks, fitted further: first to a demonstrator that wraps, sends and
mends as it should, then to one that errs at a known rate and mostly risks what it could wrap.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fctncalling.data.types import Task
from fctncalling.lab.embedded.demonstrator import parse_truth_call
from fctncalling.lab.embedded.make_tasks import EMBEDDED
from fctncalling.lab.embedded.mended_tasks import MendedEnv, mended_entries
from fctncalling.lab.embedded.model_maker import (
    Lesson,
    ModelMaker,
    load_entries,
    play_demonstrations,
    run_maker,
)
from fctncalling.lab.embedded.vocabulary import render, wording

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord
    from fctncalling.algorithms.policy.chat_template import ChatTemplate

SLIP_RATE = 0.25  # of the other folder
WRAP_RATE = 0.2  # of files that the careless demonstrator wraps
MEND_RATE = 0.6  # of what went wrong and was seen, the careless demonstrator mends
BATCH_SIZE = 12  # episodes
CARELESS_STEPS = 70
MAX_EPISODE_TOKENS = 640


class MendedDemonstrator:
    """Scripted policy: `demonstrator(task_id, turn, step, info)` returns its next message.

    It files one by one, mends what it sees and ends the turn. A careful one wraps every other file;
    each slip of a careless one depends on seed, task, turn and step alone. One object plays many
    episodes side by side, so what it knows of an episode it reads off its own earlier messages.
    """

    def __init__(self, tasks: Sequence[Task], *, seed: int = 0, careful: bool = True) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._seed = seed
        self._careful = careful
        self._plans: dict[str, list[str]] = {}  # task -> calls of the turn that are still to come

    def __call__(self, task_id: str, turn: int, step: int, info: Mapping[str, Any]) -> str:
        """Return the next call, or the word that ends the turn."""
        draw = random.Random(f"{self._seed} {task_id} {turn} {step}")
        if step == 0:
            self._plans[task_id] = self._plan(task_id, turn)
        plan = self._plans[task_id]
        answer = info["messages"][-1]
        heard = str(answer["content"])
        mends = self._careful or draw.random() < MEND_RATE
        if step and answer["role"] == "user":  # the user noticed something
            name, _, folder = heard.partition(" is not in ")
            plan += _calls_that_mend(name, folder) if mends else []
        elif "no coins" in heard:
            plan[:1] = []  # what was to be mended stays as it is
        elif step and "torn" in heard and mends and info["calls"]:
            sent = info["calls"][-1].arguments
            again = [render("send", sent)] if info["calls"][-1].name == "send" else []
            plan[:0] = [render("reprint", {"file_name": sent["file_name"]}), *again]
        if not plan:
            return str(wording()["replies"]["done"])
        return f"[{plan.pop(0)}]"

    def _plan(self, task_id: str, turn: int) -> list[str]:
        task, plan = self._tasks[task_id], list[str]()
        calls = [parse_truth_call(text)[1] for text in (task.ground_truth or ())[turn]]
        for number, arguments in enumerate(calls):
            draw = random.Random(f"{self._seed} {task_id} {turn} file {number}")
            if draw.random() < (0.5 if self._careful else WRAP_RATE):
                plan.append(render("wrap", {"file_name": arguments["file_name"]}))
            if not self._careful and draw.random() < SLIP_RATE:
                arguments = {**arguments, "destination": _other_folder(task, arguments)}
            plan.append(render("send", arguments))
        return plan


def _calls_that_mend(name: str, folder: str) -> list[str]:
    """Return the calls that correct a file's place."""
    send = render("send", {"file_name": name, "destination": folder})
    return [render("recall", {"file_name": name}), send]


def _other_folder(task: Task, arguments: Mapping[str, Any]) -> str:
    """Return the folder of files with the other ending, or the task's only folder."""
    every = [parse_truth_call(text)[1] for turn in task.ground_truth or () for text in turn]
    others = {call["destination"] for call in every} - {arguments["destination"]}
    return str(min(others, default=arguments["destination"]))


def demonstrations(
    tasks: Sequence[Task], script: MendedDemonstrator, template: ChatTemplate
) -> list[EpisodeRecord]:
    """Play a demonstrator's episodes with the ordinary rollout."""
    return play_demonstrations(
        lambda: MendedEnv(tasks),
        script,
        template,
        [task.id for task in tasks],
        max_episode_tokens=MAX_EPISODE_TOKENS,
    )


def mended_tasks(split: str, num_tasks: int, *, seed: int, first_id: int = 0) -> list[Task]:
    """Return fresh tasks of a split ("train" or "held_out")."""
    entries = mended_entries(split, num_tasks, seed=seed, first_id=first_id)
    return load_entries(entries, ["PostOffice"])


def lessons(template: ChatTemplate, num_tasks: int, seed: int) -> Iterator[Lesson]:
    """Yield careful episodes, at two rates, then careless ones on other tasks, each once."""
    tasks = mended_tasks("train", num_tasks + CARELESS_STEPS * BATCH_SIZE, seed=seed)
    careful_tasks, careless_tasks = tasks[:num_tasks], tasks[num_tasks:]
    script = MendedDemonstrator(careful_tasks, seed=seed)
    careful = demonstrations(careful_tasks, script, template)
    yield Lesson(careful, 200, lr=3e-3, batch_size=BATCH_SIZE)
    yield Lesson(careful, 60, lr=1e-3, order_seed=1, batch_size=BATCH_SIZE)
    script = MendedDemonstrator(careless_tasks, seed=seed, careful=False)
    careless = demonstrations(careless_tasks, script, template)
    yield Lesson(careless, CARELESS_STEPS, lr=8e-4, batch_size=BATCH_SIZE)


if __name__ == "__main__":
    makers = {"mended_model": ModelMaker(EMBEDDED / "stream_model", lessons, num_tasks=1000)}
    raise SystemExit(run_maker("make_mended_model", __doc__, makers))
