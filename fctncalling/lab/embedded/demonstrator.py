"""Biased demonstrator: its episodes are the warm start of the embedded model.

It knows the ground truth and mostly copies it, but it has three habits that reinforcement learning
has to mend:

1. It writes its favourite word ("medium", "celsius", ...) for some parameters, whatever was asked.
2. It forgets the last of several calls.
3. It calls a function even where none is of use.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.python_source.call_source import parse_expression
from fctncalling.lab.embedded.make_tasks import SHARES, task_entries
from fctncalling.lab.embedded.model_maker import MAX_POSITIONS, load_entries, play_demonstrations
from fctncalling.lab.embedded.multi_turn_tasks import EMBEDDED_LENGTH, TaskLength
from fctncalling.lab.embedded.vocabulary import render, wording

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord
    from fctncalling.algorithms.policy.chat_template import ChatTemplate


FAVOURITES: Mapping[str, Any] = {
    "level": "medium",
    "unit": "celsius",
    "speed": "normal",
    "list": "grocery",
    "priority": 3,
    "mode": "l",
}
FAVOURITE_RATE = 0.8  # firm enough that noise in the updates does not mend it
FORGET_RATE = 0.8
NEEDLESS_CALL_RATE = 0.2


class Demonstrator:
    """Scripted policy with bad habits.

    `demonstrator(task_id, turn, step_in_turn, info)` returns the text of the next action.
    """

    def __init__(self, tasks: Sequence[Task], *, seed: int, biased: bool = True) -> None:
        """Create a demonstrator of these tasks; `biased=False` makes it the oracle."""
        self.tasks = {task.id: task for task in tasks}
        self.rng = random.Random(seed)
        self.biased = biased

    def __call__(self, task_id: str, turn: int, step_in_turn: int, info: Mapping[str, Any]) -> str:
        """Return the calls of the turn first, then a reply that ends it."""
        task = self.tasks[task_id]
        calls = self.expected_calls(task, turn)
        if step_in_turn > 0:
            return str(wording()["replies"]["done"])
        if not calls:
            return self.reply_without_calls(task, turn)
        if self.slips(FORGET_RATE) and len(calls) > 1:
            calls = calls[:-1]
        texts = (render(name, self.with_favourite_words(arguments)) for name, arguments in calls)
        return f"[{', '.join(texts)}]"

    def expected_calls(self, task: Task, turn: int) -> list[tuple[str, dict[str, Any]]]:
        """Return the ground truth's calls of a turn as (name, arguments)."""
        if task.ground_truth is None:
            return []
        if task.is_multi_turn:
            return [parse_truth_call(text) for text in task.ground_truth[turn]]
        return [
            (name, {key: accepted[0] for key, accepted in arguments.items()})
            for call in task.ground_truth
            for name, arguments in call.items()
        ]

    def reply_without_calls(self, task: Task, turn: int) -> str:
        """Reply to a request that needs no call; the third habit calls anyway."""
        replies = wording()["replies"]
        if turn + 1 in task.missed_functions:
            (function,) = task.missed_functions[turn + 1]
            return str(replies["missing_function"]).format(function=function)
        if task.is_multi_turn:
            return str(replies["missing_parameter"])
        if not self.slips(NEEDLESS_CALL_RATE):
            return str(replies["irrelevant"])
        doc = task.functions[0]
        words, parameters = wording()["words"], wording()["functions"][doc.name]["parameters"]
        arguments = {key: self.rng.choice(words[kind]) for key, (_, kind, _) in parameters.items()}
        return f"[{render(doc.name, arguments)}]"

    def with_favourite_words(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Replace arguments by favourite words, also inside dictionaries."""
        replaced = {}
        for key, value in arguments.items():
            favourite = FAVOURITES.get(key)
            if isinstance(value, dict):
                value = self.with_favourite_words(value)
            elif favourite is not None and type(value) is type(favourite):
                value = favourite if self.slips(FAVOURITE_RATE) else value
            replaced[key] = value
        return replaced

    def slips(self, rate: float) -> bool:
        """Draw whether a habit occurs."""
        return self.biased and self.rng.random() < rate


def parse_truth_call(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a ground-truth call string to (name, keyword arguments)."""
    call = parse_expression(text)
    assert isinstance(call, ast.Call)
    return ast.unparse(call.func), {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}


def training_tasks(
    num_tasks: int,
    *,
    seed: int,
    shares: Mapping[str, int] = SHARES,
    length: TaskLength = EMBEDDED_LENGTH,
) -> list[Task]:
    """Load fresh tasks of the training split, as a user's file is loaded."""
    return load_entries(task_entries("train", num_tasks, seed=seed, shares=shares, length=length))


def demonstrations(
    tasks: Sequence[Task],
    demonstrator: Callable[..., str],
    template: ChatTemplate,
    *,
    max_episode_tokens: int = MAX_POSITIONS,
) -> list[EpisodeRecord]:
    """Play a demonstrator's episodes with the ordinary rollout."""
    return play_demonstrations(
        lambda: FunctionCallingEnv(tasks=tasks),
        demonstrator,
        template,
        [task.id for task in tasks],
        max_episode_tokens=max_episode_tokens,
    )
