"""Tasks of a run: streamed from their files, limited by category, prepared for the agent."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.cli.shared.task_finder import (
    category_file,
    iter_category_tasks,
    use_sibling_long_context_tables,
)
from fctncalling.cli.shared.tool_flags import MISSING, TaskTools
from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.paths import official_data_folder
from fctncalling.data.types import Task
from fctncalling.envs.conversations import task_for_form
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.evaluation.agents.local_model import PlannedTask, user_by_name

IsDone = Callable[[str, str, int], bool]
"""(category, task id, number of the sample) -> whether the output holds the episode already."""


class RunTasks:
    """Tasks of a run: the categories or files selected by the arguments."""

    def __init__(self, args: argparse.Namespace, categories: list[str], tools: TaskTools) -> None:
        self._args = args
        self._categories = categories
        self._tools = tools
        try:
            self._user = user_by_name(args.user, seed=args.seed) if args.user is not None else None
        except ValueError as error:
            raise InputError(f"--user: {error}") from None
        self._playable: dict[str, bool] = {}  # category -> whether what its tools need is here

    def check(self) -> None:
        """Check the first task of every file, to raise errors before a model is loaded."""
        num_playable = 0
        for name, origin, tasks in self._files():
            use_sibling_long_context_tables(origin)
            first = next(tasks, None)
            if first is not None:
                task = self._tools.with_docs(first, origin)
                num_playable += self._can_play(name, task)
        self._tools.tell_isolation(task for _, _, tasks in self._files() for task in tasks)
        if self._tools.box is not None:
            for _, origin, tasks in self._files():
                self._tools.refuse_name_clashes(tasks, origin)
        if not num_playable:
            raise InputError(
                "nothing was played: no task in what --category and --dataset_path name"
            )

    def planned_tasks(
        self, form: str, *, own_handler: str, is_done: IsDone
    ) -> Iterator[PlannedTask]:
        """Yield the planned tasks: every episode to play that is not done.

        own_handler: of a local model's chat template; "" for BFCL's in the answer form.
        """
        counts = Counter[str]()
        for name, origin, tasks in self._files():
            use_sibling_long_context_tables(origin)
            for bare in tasks:
                category = name or bare.category
                if self._args.limit is not None and counts[category] >= self._args.limit:
                    if name:
                        break
                    continue
                task = self._tools.with_docs(bare, origin)
                if not self._can_play(name, task):
                    if name:
                        break
                    continue
                counts[category] += 1
                handler = own_handler or handler_for(task, form).name
                for sample in range(self._args.num_samples):
                    if not is_done(category, task.id, sample):
                        asked = task_for_form(task, form)
                        named = str(origin) if self._args.dataset_path else ""
                        yield PlannedTask(category, asked, handler, sample, named)

    def make_env(self, tasks: tuple[Task, ...], handler: str) -> FunctionCallingEnv:
        """Make an env over some of the tasks."""
        return FunctionCallingEnv(
            tasks=tasks,
            handler=handler,
            max_steps_per_turn=self._args.max_steps_per_turn,
            prompt_style=self._args.prompt_style,
            tools=self._tools.env_tools(tasks),
            user=self._user,
        )

    def _files(self) -> Iterator[tuple[str | None, Path, Iterator[Task]]]:
        """Yield (category, or None for a mixed file; source path; tasks)."""
        own = self._tools.given
        for path in self._args.dataset_path or [official_data_folder()]:
            if self._args.dataset_path and not path.is_dir():
                tasks = iter_tasks(path, self_documented=own)
                wanted = None if "all" in self._args.category else self._categories
                yield None, path, (t for t in tasks if wanted is None or t.category in wanted)
                continue
            # those named, and of groups those that are here
            here = [
                name
                for name in self._categories
                if name in self._args.category or category_file(path, name) is not None
            ]
            for name in here or self._categories[:1]:  # which is told as missing
                yield name, path, iter_category_tasks(path, name, own)

    def _can_play(self, name: str | None, task: Task) -> bool:
        """Return whether a category's tools work (`name`: in a folder).

        Raise unless only a group selected it.
        """
        category = name or task.category
        if category not in self._playable:
            try:
                env = self.make_env((task,), handler_for(task, "prompting").name)
                env.reset(options={"task_id": task.id})
                self._playable[category] = True
            except MISSING as error:
                if name is None or category in self._args.category:
                    raise
                print(f"{category} is not played: {error}", file=sys.stderr)
                self._playable[category] = False
        return self._playable[category]
