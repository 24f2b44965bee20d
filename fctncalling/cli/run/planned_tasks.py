"""Tasks of a run: streamed from their files, limited by category, prepared for the agent."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from fctncalling.cli.shared.category_files import tasks_of
from fctncalling.cli.shared.jsonl_records import InputError, use_sibling_tables
from fctncalling.cli.shared.missing_tools import MISSING
from fctncalling.cli.shared.tool_flags import TaskTools
from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.types import Task
from fctncalling.envs.dialogue.task_form import task_for_form
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.evaluation.local_user import user_named

IsDone = Callable[[str, str, int], bool]
"""(category, task id, number of the sample) -> whether the output holds the episode already."""


class PlannedTask(NamedTuple):
    """One episode to play: the task as the agent gets it."""

    category: str  # under which its answer is scored
    task: Task
    handler: str
    sample: int = 0  # which of the --num_samples of its task


class RunTasks:
    """Task stream of the categories or files selected by the arguments."""

    def __init__(self, args: argparse.Namespace, categories: list[str], tools: TaskTools) -> None:
        self._args = args
        self._categories = categories
        self._tools = tools
        try:
            self._user = user_named(args.user, seed=args.seed) if args.user is not None else None
        except ValueError as error:
            raise InputError(f"--user: {error}") from None
        self._playable: dict[str, bool] = {}  # category -> whether what its tools need is here

    def check(self) -> None:
        """Read the first task of every file, to raise its errors before a model is
        loaded.
        """
        num_playable = 0
        for name, origin, tasks in self._files():
            use_sibling_tables(origin)
            first = next(tasks, None)
            if first is not None:
                task = self._tools.with_docs(first, origin)
                num_playable += self._can_play(name or task.category, task)
        if self._tools.box is not None:
            for _, origin, tasks in self._files():
                self._tools.refuse_clashes(tasks, origin)
        if not num_playable:
            raise InputError(
                "nothing was played: no task in what --category, --dataset_path and --data_dir name"
            )

    def items(self, form: str, *, reads_any: bool, is_done: IsDone) -> Iterator[PlannedTask]:
        """Yield every episode to play; `reads_any` lets the environment detect the call format."""
        counts = Counter[str]()
        for name, origin, tasks in self._files():
            use_sibling_tables(origin)
            for bare in tasks:
                category = name or bare.category
                if self._is_full(counts[category]):
                    if name:
                        break
                    continue
                task = self._tools.with_docs(bare, origin)
                if not self._can_play(category, task):
                    if name:
                        break
                    continue
                counts[category] += 1
                handler = "auto" if reads_any else handler_for(task, form).name
                for sample in range(self._args.num_samples):
                    if not is_done(category, task.id, sample):
                        yield PlannedTask(category, task_for_form(task, form), handler, sample)

    def env(self, tasks: tuple[Task, ...], handler: str) -> FunctionCallingEnv:
        """Return an environment over some of the tasks."""
        return FunctionCallingEnv(
            tasks=tasks,
            handler=handler,
            max_steps_per_turn=self._args.max_steps_per_turn,
            prompt_style=self._args.prompt_style,
            tools=self._tools.offered(tasks),
            user=self._user,
        )

    def _files(self) -> Iterator[tuple[str | None, Path, Iterator[Task]]]:
        """Yield (category, or None if each task has its own; source path; tasks)."""
        user_classes, data_dir = self._tools.given, self._args.data_dir
        if self._args.dataset_path:
            for path in self._args.dataset_path:
                yield None, path, iter_tasks(path, self_documented=user_classes)
        else:
            for name in self._categories:
                yield name, data_dir, tasks_of(data_dir, name, user_classes)

    def _is_full(self, count: int) -> bool:
        return self._args.limit is not None and count >= self._args.limit

    def _can_play(self, category: str, task: Task) -> bool:
        """Return whether a category's tools work; raise unless only a group selected it."""
        if category not in self._playable:
            try:
                env = self.env((task,), handler_for(task, "prompting").name)
                env.reset(options={"task_id": task.id})
                self._playable[category] = True
            except MISSING as error:
                if self._args.dataset_path or category in self._args.category:
                    raise
                print(f"{category} is not played: {error}", file=sys.stderr)
                self._playable[category] = False
        return self._playable[category]
