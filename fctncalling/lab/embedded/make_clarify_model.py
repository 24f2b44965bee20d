"""Build the small model of the job `--env_name clarify`.

`python -m fctncalling.lab.embedded.make_clarify_model --help`.

It is the embedded model, fitted further to questioning tasks: first to a demonstrator that asks
where it must, so that it learns to read what a request leaves open and to copy the user's answer;
then to one that mostly guesses. Reinforcement learning has to mend that.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fctncalling.checkers.clarify import missing_parameters, split_words
from fctncalling.data.types import Task
from fctncalling.evaluation.scripted_policies import question_about
from fctncalling.lab.embedded.clarify_tasks import clarify_entries
from fctncalling.lab.embedded.demonstrator import demonstrations
from fctncalling.lab.embedded.make_tasks import EMBEDDED
from fctncalling.lab.embedded.model_maker import Lesson, ModelMaker, load_entries, run_maker
from fctncalling.lab.embedded.vocabulary import render, wording

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord
    from fctncalling.algorithms.policy.chat_template import ChatTemplate

ASK_RATE = 0.3  # of the careless demonstrator, where a value is missing
MAX_EPISODE_TOKENS = 512


class ClarifyDemonstrator:
    """Scripted policy: `demonstrator(task_id, turn, step, info)` returns its next message.

    A careful one asks for what is missing, then calls. A careless one guesses instead in most of
    these tasks. Neither asks for what was said: a policy that learned to would ask for the wrong
    value where one is open.
    """

    def __init__(self, tasks: Sequence[Task], *, seed: int, careless: bool) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._seed = seed
        self._careless = careless

    def __call__(self, task_id: str, turn: int, step: int, info: Mapping[str, Any]) -> str:
        """Return the question, or the call."""
        task = self._tasks[task_id]
        draw = random.Random(f"{self._seed} {task_id}")
        missing = list(missing_parameters(task))
        asks = bool(missing)
        if self._careless and missing:
            asks = draw.random() < ASK_RATE
        values = dict(task.extra["user_knows"])
        if asks and step == 0:
            return question_about(missing[0])
        (name,) = (task.ground_truth or ({},))[0]
        if missing and not asks:
            values[missing[0]] = _guess(task, name, missing[0])
        return f"[{render(name, values)}]"


def _guess(task: Task, function: str, parameter: str) -> Any:
    """Return the first value mentioned, else the first word of the vocabulary.

    Always the same one, for guesses at random would unlearn copying.
    """
    kind = wording()["functions"][function]["parameters"][parameter][1]
    text = split_words(task.question[0][0]["content"])
    words = wording()["words"][kind]
    mentioned = [word for word in words if str(word) in text]
    return min(mentioned, key=lambda word: text.index(str(word)), default=words[0])


def lessons(template: ChatTemplate, num_tasks: int, seed: int) -> Iterator[Lesson]:
    """Yield careful episodes, at two rates, then careless ones."""
    tasks = training_tasks(num_tasks, seed=seed)

    def played(*, careless: bool) -> list[EpisodeRecord]:
        script = ClarifyDemonstrator(tasks, seed=seed, careless=careless)
        return demonstrations(tasks, script, template, max_episode_tokens=MAX_EPISODE_TOKENS)

    careful = played(careless=False)
    yield Lesson(careful, 450, lr=2e-3)
    yield Lesson(careful, 200, lr=5e-4)
    yield Lesson(played(careless=True), 50, lr=5e-4)


def training_tasks(num_tasks: int, *, seed: int) -> list[Task]:
    """Load fresh tasks of the training split, as a user's file is loaded."""
    entries = clarify_entries("clarify_train", num_tasks, seed=seed)
    random.Random(seed).shuffle(entries)
    return load_entries(entries)


if __name__ == "__main__":
    makers = {"clarify": ModelMaker(EMBEDDED / "model", lessons, num_tasks=2400)}
    raise SystemExit(run_maker("make_clarify_model", __doc__, makers))
