"""Split of a run's tasks into training and held-out tasks, for every environment."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from fctncalling.algorithms.config import TrainConfig
from fctncalling.data.bfcl import TaskError, embedded_path, load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.tool_text.tasks import QuestionTask, load_text_tasks
from fctncalling.training.announce import announce

HELD_OUT_SHARE = 0.2  # of a dataset that comes without held-out tasks
EMBEDDED_TASKS = {"clarify": "clarify_"}  # --env_name -> prefix of its embedded task files
T = TypeVar("T", Task, QuestionTask)


def split_held_out(
    tasks: Sequence[T], separate: Sequence[T] | None, limit: int
) -> tuple[list[T], list[T]]:
    """Split off at most `limit` held-out tasks from training tasks, by a fixed seed.

    `separate`: held-out tasks of a file of their own; None: a fifth of each category of `tasks` is
    held out. A single task is both.
    """
    training = list(tasks)
    fixed = random.Random(0)
    if separate is not None:
        held_out = list(separate)
    elif len(training) == 1:
        held_out = list(training)
    else:
        fixed.shuffle(training)
        chosen = _held_out_places([task.category for task in training])
        held_out = [task for place, task in enumerate(training) if place in chosen]
        training = [task for place, task in enumerate(training) if place not in chosen]
    fixed.shuffle(held_out)
    return training, held_out[:limit]


def _held_out_places(categories: Sequence[str]) -> set[int]:
    """Choose the indices of a list that are held out.

    The first fifth of each category, at least one where two others remain to be learned from.
    """
    counts = Counter(categories)
    left = {
        name: max(1, round(HELD_OUT_SHARE * count)) if count > 2 else 0
        for name, count in counts.items()
    }
    if not any(left.values()):
        left[categories[0]] = 1
    places = set()
    for place, name in enumerate(categories):
        if left[name]:
            left[name] -= 1
            places.add(place)
    return places


def _held_out_note(tasks: Sequence[Task], training: Sequence[Task], played: Sequence[Task]) -> str:
    """Return how many tasks of each category are held out, and played in evaluations."""
    number = len(tasks) - len(training)
    some = f" (evaluations play {len(played)} of them)" if len(played) < number else ""
    counts = Counter(task.category for task in played)
    none = sorted({task.category for task in tasks} - counts.keys())
    listed = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    lacking = f"; none of {', '.join(none)}" if none else ""
    return (
        f"Held out {number} of {len(tasks)} tasks{some}: {listed}{lacking}. --eval_dataset_path "
        "gives others."
    )


def load_bfcl_tasks(
    config: TrainConfig, user_classes: Collection[str] = ()
) -> tuple[list[Task], list[Task]]:
    """Load BFCL tasks: for training, and at most --eval_episodes held-out ones of all kinds.

    `user_classes`: names of classes whose docs may be missing, for the environment makes them.
    """
    prefix = EMBEDDED_TASKS.get(config.env_name, "")
    tasks = load_tasks(
        config.dataset_path or embedded_path(f"{prefix}train"), self_documented=user_classes
    )
    if not tasks:
        raise TaskError(f"{config.dataset_path}: no task in it")
    separate = None
    if config.eval_dataset_path is not None or config.dataset_path is None:
        separate = load_tasks(
            config.eval_dataset_path or embedded_path(f"{prefix}held_out"),
            self_documented=user_classes,
        )
        if config.eval_dataset_path != config.dataset_path:
            separate = rename_clashing_held_out_ids(tasks, separate)
    training, held_out = split_held_out(tasks, separate, config.eval_episodes)
    if separate is None and len(tasks) == 1:
        announce(
            "Note: the only task is evaluated on too: give --eval_dataset_path for held-out ones."
        )
    elif separate is None:
        announce(_held_out_note(tasks, training, held_out))
    return training, held_out


def rename_clashing_held_out_ids(training: Sequence[Task], held_out: Sequence[Task]) -> list[Task]:
    """Rename held-out tasks with the id of a training task.

    Files of different origin number their tasks alike ("simple_python_0"); a clash would let one
    task be played in the other's place. A task that stands in both files keeps its id, and a note
    says how many these are.
    """
    training_by_id = {task.id: task for task in training}
    common = [task.id for task in held_out if training_by_id.get(task.id) == task]
    if common:
        announce(
            f"Note: {len(common)} held-out tasks are training tasks too, such as {min(common)}."
        )
    clashing = training_by_id.keys() - set(common)
    return [
        replace(task, id=f"held_out:{task.id}") if task.id in clashing else task
        for task in held_out
    ]


def load_question_tasks(
    config: TrainConfig, path: str
) -> tuple[list[QuestionTask], list[QuestionTask]]:
    """Load question tasks for training and held-out ones from a user's files."""
    tasks = load_text_tasks(path, category=config.env_name)
    separate = None
    if config.eval_dataset_path is not None:
        separate = load_text_tasks(config.eval_dataset_path, category=config.env_name)
        if config.eval_dataset_path != path:
            ids = {task.id for task in tasks}
            separate = [_with_held_out_id(task) if task.id in ids else task for task in separate]
    return split_held_out(tasks, separate, config.eval_episodes)


def _with_held_out_id(task: QuestionTask) -> QuestionTask:
    """Give a held-out task an id that no training task has, as line numbers repeat."""
    return QuestionTask(f"held_out:{task.id}", task.prompt, task.answer, task.category, task.extra)
