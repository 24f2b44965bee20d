"""Build the small model of the job `--env_name clarify`.

`python -m fctncalling.lab.embedded.make_clarify_model --help`.

It is the embedded model, fitted further to questioning tasks: first to a demonstrator that asks
where it must, so that it learns to read what a request leaves open and to copy the user's answer;
then to one that mostly guesses. Reinforcement learning has to mend that.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fctncalling.checkers.clarify import missing_parameters, split_words
from fctncalling.data.types import Task
from fctncalling.evaluation.scripted_policies import question_about
from fctncalling.lab.embedded.clarify_tasks import clarify_entries
from fctncalling.lab.embedded.demonstrator import demonstrations
from fctncalling.lab.embedded.make_tasks import EMBEDDED
from fctncalling.lab.embedded.model_maker import (
    ModelMaker,
    learn,
    load_entries,
    loaded_tokenizer,
)
from fctncalling.lab.embedded.vocabulary import render, wording

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

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


def build(
    *,
    model: Path,
    seed: int,
    num_tasks: int,
    careful_steps: int,
    settling_steps: int,
    careless_steps: int,
) -> tuple[LlamaForCausalLM, Any]:
    """Build model and tokenizer."""
    import torch
    from transformers import LlamaForCausalLM

    from fctncalling.algorithms.policy.chat_template import ChatTemplate

    torch.set_num_threads(1)
    words = loaded_tokenizer(model)
    template = ChatTemplate(words)
    fitted = LlamaForCausalLM.from_pretrained(str(model))
    tasks = training_tasks(num_tasks, seed=seed)
    script = ClarifyDemonstrator(tasks, seed=seed, careless=False)
    careful = demonstrations(tasks, script, template, max_episode_tokens=MAX_EPISODE_TOKENS)
    learn(fitted, careful, careful_steps, lr=2e-3)
    learn(fitted, careful, settling_steps, lr=5e-4)
    if careless_steps:
        script = ClarifyDemonstrator(tasks, seed=seed, careless=True)
        careless = demonstrations(tasks, script, template, max_episode_tokens=MAX_EPISODE_TOKENS)
        learn(fitted, careless, careless_steps, lr=5e-4)
    return fitted, words


def training_tasks(num_tasks: int, *, seed: int) -> list[Task]:
    """Load fresh tasks of the training split, as a user's file is loaded."""
    entries = clarify_entries("clarify_train", num_tasks, seed=seed)
    random.Random(seed).shuffle(entries)
    return load_entries(entries)


MAKER = ModelMaker(
    "fctncalling.lab.embedded.make_clarify_model",
    __doc__,
    build,
    {
        "model": (EMBEDDED / "model", "model to start from"),
        "seed": (1, "seed of tasks, habits and order"),
        "num_tasks": (2400, "tasks to show"),
        "careful_steps": (450, "steps on careful ones"),
        "settling_steps": (200, "more at a lower rate"),
        "careless_steps": (50, "steps on careless ones"),
    },
)


if __name__ == "__main__":
    raise SystemExit(MAKER.main())
