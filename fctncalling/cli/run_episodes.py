"""Playing the episodes of a run: tasks streamed in, several at once, each written when it ends."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.agents.agent import Agent, AgentSetupError, handler_of, posed
from fctncalling.agents.endpoint import EndpointAgent, EndpointSettings
from fctncalling.agents.scripted import SCRIPTED, ScriptedAgent
from fctncalling.cli.records import InputError, shown_progress, use_tables_beside
from fctncalling.cli.run_output import OutputFile
from fctncalling.cli.run_workers import Workers
from fctncalling.cli.score_inputs import tasks_of
from fctncalling.cli.task_tools import TaskTools
from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.format_sensitivity import CATEGORY
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.judge import judge
from fctncalling.envs.tools.extras import MissingExtra
from fctncalling.envs.tools.local_corpus import CorpusError
from fctncalling.envs.tools.long_context import LongContextError
from fctncalling.episodes import Played, episode_fields, play, response_of, verdict_fields

MISSING = (MissingExtra, CorpusError, LongContextError)
"""What a category's tools need is not there: told once, for all its tasks would fail alike."""
_FORM_OF = {"tool_calls": "tool_call"}
_AT_LEAST = {
    "limit": 1,
    "concurrency": 1,
    "max_steps_per_turn": 1,
    "temperature": 0,
    "max_new_tokens": 1,
    "max_episode_tokens": 1,
    "timeout_s": 0,
    "retries": 0,
    "retry_wait_s": 0,
    "max_invalid": 1,
}
"""Name of a setting -> its least value; None, where it may be left out, is none."""


class Item(NamedTuple):
    """One task to play, as it is put to the agent."""

    category: str  # under which its answer is scored
    task: Task
    handler: str


class Runner:
    """Plays tasks once with the agent that the arguments name; raises AgentSetupError and InputError."""

    def __init__(self, args: argparse.Namespace, categories: list[str]) -> None:
        for name, least in _AT_LEAST.items():
            given = getattr(args, name)
            if given is not None and not given >= least:  # not a number, too
                raise InputError(f"--{name}: got {given}, expected at least {least}")
        if args.form == "tool_call" and CATEGORY in categories:
            raise InputError(
                f'--form tool_call: {CATEGORY} varies the prompt, so its one form is "prompting"'
            )
        self._args, self._categories = args, categories
        self._tools = TaskTools(args)
        self._workers = Workers(args.concurrency, self._one)
        self._local, self._agent = None, None
        kind, _, name = args.agent.partition(":")
        if kind == "hf" and name:
            self._local = _local_model(args, name)
        else:
            self._agent = _agent(args, kind, name)
        self.form: str = self._local.form if self._local else args.form or "prompting"
        self.settings = {
            "model": args.agent,
            "form": self.form,
            "max_steps_per_turn": args.max_steps_per_turn,
        }

    def play(self, output: OutputFile) -> str:
        """Play what the output lacks; return why the run ended early, "" where it did not. Raises what setup lacks."""
        items = self._items(output)
        lines = self._local_lines(items) if self._local else self._workers.results(items)
        failed_in_a_row = 0
        try:
            for line in shown_progress(lines, self._args.agent, "episode"):
                output.write(line)
                failed_in_a_row = failed_in_a_row + 1 if line["invalid"] else 0
                if failed_in_a_row >= self._args.max_invalid:
                    return f"{failed_in_a_row} episodes in a row are invalid; the last: {line['invalid_reason']}"
        except KeyboardInterrupt:
            return "Interrupted."
        finally:  # after Ctrl-C, too: what ended is kept, what is under way is not waited for
            for line in self._workers.stop():
                if not line["invalid"]:
                    output.write(line)
        return ""

    def close(self) -> None:
        """Let go of connections."""
        if self._agent is not None:
            self._agent.close()

    def _items(self, output: OutputFile) -> Iterator[Item]:
        own, data_dir = self._tools.given, self._args.data_dir
        if self._args.dataset_path:
            files: Iterator[tuple[str | None, Path, Iterator[Task]]] = (
                (None, path, iter_tasks(path, self_documented=own))
                for path in self._args.dataset_path
            )
        else:
            files = ((name, data_dir, tasks_of(data_dir, name, own)) for name in self._categories)
        for name, origin, tasks in files:
            use_tables_beside(origin)
            for number, bare in enumerate(islice(tasks, self._args.limit)):
                task = self._tools.documented(bare, origin)
                if number == 0 and not self._can_play(task):
                    break
                category = name or task.category
                if not output.is_done(category, task.id):
                    handler = (
                        "auto"
                        if self._local and self.form == "tool_call"
                        else handler_of(task, self.form)
                    )
                    yield Item(category, posed(task, self.form), handler)

    def _can_play(self, task: Task) -> bool:
        """Whether what a category's tools need is here; false, told on stderr, only where a group brought it in."""
        try:
            self._env((task,), handler_of(task, self.form)).reset(options={"task_id": task.id})
        except MISSING as error:
            if self._args.dataset_path or task.category in self._args.category:
                raise
            print(f"{task.category} is not played: {error}", file=sys.stderr)
            return False
        return True

    def _env(self, tasks: tuple[Task, ...], handler: str) -> FunctionCallingEnv:
        limit = self._args.max_steps_per_turn
        tools = self._tools.of(tasks, "tasks")
        return FunctionCallingEnv(
            tasks=tasks, handler=handler, max_steps_per_turn=limit, tools=tools
        )

    def _one(self, item: Item) -> dict[str, Any]:
        assert self._agent is not None
        started = time.perf_counter()
        env = self._env((item.task,), item.handler)
        player = _Interruptible(
            self._agent.player(item.task, item.handler, self._args.seed), self._workers.stopped
        )
        played = play(env, item.task.id, player, self._args.seed)
        return line_of(
            item,
            played,
            {"latency": time.perf_counter() - started},
            self._tools.of((item.task,), "tasks"),
        )

    def _local_lines(self, items: Iterator[Item]) -> Iterator[dict[str, Any]]:
        assert self._local is not None
        from fctncalling.agents.local_model import as_tool_calls

        for handler, group in _runs_of_one_handler(items):
            waiting = {item.task.id: item for item in group}
            tasks = [item.task for item in waiting.values()]
            for task, played in self._local.play_all(
                tasks, lambda chunk, name=handler: self._env(chunk, name)
            ):
                line = line_of(waiting[task.id], played, {}, self._tools.of((task,), "tasks"))
                if self.form == "tool_call":
                    calls = {step.text: tuple(step.calls) for step in played.episode.steps}
                    line["response"] = as_tool_calls(line["response"], calls)
                yield line


class _Interruptible:
    def __init__(self, player: Any, given_up: threading.Event) -> None:
        self._player, self._given_up = player, given_up

    def answer(self, observation: str, info: Any) -> str:
        if self._given_up.is_set():
            raise KeyboardInterrupt
        text: str = self._player.answer(observation, info)
        return text


def line_of(
    item: Item, played: Played, more: dict[str, Any], tools: dict[str, Any]
) -> dict[str, Any]:
    """Return the line of an episode: the answer, its verdicts and every step."""
    steps, episode = played.episode.steps, played.episode
    line = {"category": item.category, "id": item.task.id, "handler": item.handler, **more}
    line["ground_truth"] = item.task.ground_truth
    if episode.invalid:
        return {**line, "response": None, **episode_fields(played)}
    response = response_of(item.task, steps)
    verdict = episode.verdict
    if verdict is None:  # cut by a budget: what there is, is judged as `score` will judge it
        verdict = judge(
            item.task, response, _FORM_OF.get(item.handler, "prompting"), extra_tools=tools
        )
    verdicts = verdict_fields(item.task, steps, verdict)
    if episode.verdict is None:
        verdicts["verdict"] = None
    return {**line, "response": response, **verdicts, **episode_fields(played)}


def _agent(args: argparse.Namespace, kind: str, name: str) -> Agent:
    if kind in SCRIPTED and not name:
        return ScriptedAgent(kind)
    if kind != "openai" or not name:
        known = ", ".join((*SCRIPTED, "hf:FOLDER", "openai:MODEL"))
        raise AgentSetupError(
            f'--agent: no agent is called "{args.agent}": expected one of {known}'
        )
    return EndpointAgent(
        EndpointSettings(
            name,
            base_url=args.base_url,
            api_key_env=args.api_key_env,
            form=args.form or "prompting",
            temperature=args.temperature,
            max_tokens=args.max_new_tokens,
            timeout_s=args.timeout_s,
            retries=args.retries,
            first_wait_s=args.retry_wait_s,
        )
    )


def _local_model(args: argparse.Namespace, folder: str) -> Any:
    from fctncalling.agents.local_model import LocalModel, LocalSettings

    return LocalModel(
        LocalSettings(
            folder,
            form=args.form or "",
            temperature=args.temperature,
            max_new_tokens=args.max_new_tokens or 256,
            max_episode_tokens=args.max_episode_tokens,
            num_envs=args.concurrency,
            seed=args.seed,
            device=args.device,
        )
    )


def _runs_of_one_handler(
    items: Iterator[Item], size: int = 256
) -> Iterator[tuple[str, list[Item]]]:
    """Yield items in groups that share category and handler, at most `size` at a time."""
    group: list[Item] = []
    for item in items:
        if group and (
            len(group) >= size
            or (item.handler, item.category) != (group[0].handler, group[0].category)
        ):
            yield group[0].handler, group
            group = []
        group.append(item)
    if group:
        yield group[0].handler, group
