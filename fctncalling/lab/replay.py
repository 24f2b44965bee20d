"""Play logged episodes again and compare: observations, rewards and verdicts have to be identical.

Reads the output of `run` and the trainer's episodes/*.jsonl (whose settings stand in config.json
two folders up). Each logged message is given to a fresh environment; what comes back is compared
field by field, then the answer is judged anew. Exit code 1 if anything differs.

example:
  fctncalling replay answers.jsonl --dataset_path data/bfcl
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fctncalling.algorithms.run.logs import json_value
from fctncalling.cli.score.run_episodes import run_config
from fctncalling.cli.shared.jsonl_records import (
    SourceRecord,
    read_records,
    with_progress_bar,
)
from fctncalling.cli.shared.parser import add_flag, add_input, add_json_switch, print_error
from fctncalling.cli.shared.task_finder import TaskFinder, use_sibling_long_context_tables
from fctncalling.cli.shared.tool_flags import (
    USER_ERRORS,
    TaskTools,
    add_dataset_argument,
    add_tool_arguments,
)
from fctncalling.data import format_sensitivity
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.conversations import task_for_form
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers import HANDLERS, TEXT_HANDLERS
from fctncalling.envs.handlers.handler import UNREAD
from fctncalling.envs.rewards import QUESTION_COST, ClarifyReward
from fctncalling.envs.users import LoggedUser
from fctncalling.evaluation.agents.agent import (
    CONTEXT_OVERFLOW,
    ContextOverflow,
    EpisodeCut,
    PlayedEpisode,
)
from fctncalling.evaluation.episode_log import (
    episode_json,
    play_episode,
    user_replies,
    verdict_fields,
)
from fctncalling.training.task_split import EMBEDDED_TASKS

_SETTINGS = {
    "seed": int,
    "handler": str,
    "reward": str,
    "max_steps_per_turn": int,
    "prompt_style": str,
    "form": str,
}
"""Settings that a logged line may have -> their types."""
_TOLD = 20  # differences that are printed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = partial(add_flag, parser)
    add_input(parser, "--input", "FILE", "logged episodes: .jsonl or .jsonl.gz", many=True)
    add_dataset_argument(parser, "as the log or its config.json says, else as for `verdicts`")
    add_tool_arguments(parser)
    # Settings of the environment, for logs that do not record them.
    written = f"how calls were written: {', '.join((*HANDLERS, *TEXT_HANDLERS))}; default: as "
    add("--handler", str, "NAME", written + "logged, else auto")
    paid = "what was paid; default: as logged, else success"
    parser.add_argument("--reward", choices=("success", "progress"), help=paid)
    limit = "the limit that was set; default: as logged, else 20"
    add("--max_steps_per_turn", int, "N", limit)
    add_json_switch(parser)


def run(args: argparse.Namespace) -> int:
    """Replay every episode.

    Return 0, 1 if one differs, 2 where a log or a task cannot be used.
    """
    try:
        counts, differences = replay_logs(args)
    except USER_ERRORS:
        raise
    except (LookupError, ImportError, ValueError) as error:
        return print_error(f"{type(error).__name__}: {error}")
    if not counts.total():
        paths = ", ".join(map(str, args.input))
        return print_error(f"{paths}: no episode in it: expected the output of `run`")
    _show(counts, differences, as_json=args.json)
    return 1 if counts["different"] else 0


def replay_logs(args: argparse.Namespace) -> tuple[Counter[str], list[dict[str, str]]]:
    """Replay the logs of --input: return the counts of outcomes, and all differences."""
    counts, differences = Counter[str](), []
    for path in args.input:
        replayer = Replayer(path, args)
        for line in with_progress_bar(read_records(path), f"replaying {path.name}", "episode"):
            found = replayer.differences(line)
            counts["skipped" if found is None else "different" if found else "identical"] += 1
            where = {"at": f"{path} line {line.number}", "id": replayer.task_id(line)}
            differences += [{**where, **each} for each in found or ()]
    return counts, differences


def _show(counts: Counter[str], differences: list[dict[str, str]], *, as_json: bool) -> None:
    if as_json:
        report = {name: counts[name] for name in ("identical", "different", "skipped")}
        print(json.dumps({**report, "differences": differences}, indent=2))
    else:
        for each in differences[:_TOLD]:
            print(
                f"{each['at']} ({each['id']}): {each['field']}: logged {each['logged']}, now "
                f"{each['now']}"
            )
        print(
            f"{counts['identical']} episodes identical, {counts['different']} different, "
            f"{counts['skipped']} invalid when they were played: not replayed"
        )


class Replayer:
    """Replayer of one log.

    An argument given overrides a line's setting; config.json supplies what the line lacks.
    """

    def __init__(self, path: Path, args: argparse.Namespace) -> None:
        self._config = run_config(path)
        self._args = args
        self._tools = TaskTools(args)
        self._files = [path for path in args.dataset_path or () if not path.is_dir()]
        folders = [path for path in args.dataset_path or () if path.is_dir()]
        self._finder = TaskFinder(folders, self._tools.given)
        self._logged_tasks: dict[str, Task] | None = None

    def differences(self, line: SourceRecord) -> list[dict[str, str]] | None:
        """Return the differences between replay and log.

        None for an episode that is logged as invalid.
        """
        if line.record.get("invalid"):
            return None
        for name, expected in _SETTINGS.items():
            if line.record.get(name) is not None:
                line.field(name, expected, f"{expected.__name__} or none")
        if int(line.record.get("seed") or 0) < 0:
            raise line.error("seed", "expected a number from 0")
        steps = line.field("steps", list, "the logged steps")
        if line.record.get("played"):
            steps = [*line.field("played", list, "the ground truth's steps before them"), *steps]
        texts = [
            step["text"]
            for step in steps
            if isinstance(step, dict) and isinstance(step.get("text"), str)
        ]
        if len(texts) != len(steps):
            raise line.error("steps", "expected each step with its text")
        task = self._task(line)
        cut = ContextOverflow if line.record.get(CONTEXT_OVERFLOW) else EpisodeCut
        player = _Recorded(texts, cut)
        played = play_episode(self._env(line, task), task.id, player, line.record.get("seed"))
        return list(episode_differences({**line.record, "steps": steps}, task, played))

    def task_id(self, line: SourceRecord) -> str:
        """Return the id of the task a line is an episode of."""
        name = "task_id" if "task_id" in line.record else "id"
        task_id: str = line.field(name, str, "a task's id")
        return task_id

    def _env(self, line: SourceRecord, task: Task) -> FunctionCallingEnv:
        def setting(name: str, default: Any) -> Any:
            for value in (getattr(self._args, name), line.record.get(name)):
                if value is not None:
                    return value
            return self._config.get(name, default)

        reward = setting("reward", "success")
        if self._config.get("env_name") == "clarify":
            reward = ClarifyReward(float(self._config.get("question_cost", QUESTION_COST)))
        return FunctionCallingEnv(
            tasks=(task,),
            handler=setting("handler", "auto"),
            reward=reward,
            user=logged_user(line.record["steps"], task),
            max_steps_per_turn=setting("max_steps_per_turn", 20),
            prompt_style=line.record.get("prompt_style", self._config.get("prompt_style", "bfcl")),
            tools=self._tools.classes_for((task,), line.path),
        )

    def _task(self, line: SourceRecord) -> Task:
        task_id = self.task_id(line)
        if self._logged_tasks is None:
            self._logged_tasks = self._load_logged_tasks()
        if task_id in self._logged_tasks:
            found = self._logged_tasks[task_id]
        elif "task_id" in line.record:
            raise line.error(
                "task_id", f'no task is called "{task_id}": name its file by --dataset_path'
            )
        else:
            found = self._finder.find_task(line)
            if line.record.get("category") == format_sensitivity.CATEGORY:
                found = replace(found, id=task_id)
        found = self._tools.with_docs(found, line.path)
        return task_for_form(found, str(line.record.get("form", "")))

    def _load_logged_tasks(self) -> dict[str, Task]:
        paths = list(self._files)
        # A trainer's log: its tasks are those it was told, or the embedded ones.
        if not paths and self._config:
            configured = [self._config.get("dataset_path"), self._config.get("eval_dataset_path")]
            paths = [Path(path) for path in configured if path]
            if not configured[0]:
                prefix = EMBEDDED_TASKS.get(str(self._config.get("env_name")), "")
                paths += [embedded_path(f"{prefix}{part}") for part in ("train", "held_out")]
        own = self._tools.given
        for path in paths:
            use_sibling_long_context_tables(path)
        return {task.id: task for path in paths for task in load_tasks(path, self_documented=own)}


class _Recorded:
    """Player that repeats logged messages; raises `cut` after the last one."""

    def __init__(self, texts: list[str], cut: type[Exception]) -> None:
        self._texts = iter(texts)
        self._cut = cut

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        text = next(self._texts, None)
        if text is None:
            raise self._cut
        return text


_STEP_FIELDS = tuple("turn text calls executed results error reward observation_sha256".split())
_VERDICT_FIELDS = tuple("verdict valid error_type strict_valid strict_error_type progress".split())
_ENDS = ("terminated", "truncated")
_SHOWN = 200  # characters of a value that differs


def episode_differences(
    logged: Mapping[str, Any], task: Task, played: PlayedEpisode
) -> Iterator[dict[str, str]]:
    """Yield the differences of a replayed episode from its log: field, logged value, value now."""
    now = episode_json(played)
    if len(now["steps"]) != len(logged["steps"]):
        yield _difference("steps", f"{len(logged['steps'])} steps", f"{len(now['steps'])} steps")
    for index, (old, new) in enumerate(zip(logged["steps"], now["steps"], strict=False)):
        yield from _fields(f"steps[{index}].", _STEP_FIELDS, old, new)
    if played.episode.invalid:
        yield _difference("invalid", False, played.reason)
    verdict = played.episode.verdict
    judged = verdict_fields(task, played.episode.steps, verdict) if verdict else {"verdict": None}
    yield from _fields("", (*_VERDICT_FIELDS, *_ENDS), logged, {**now, **judged})


def _fields(
    prefix: str, names: tuple[str, ...], old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[dict[str, str]]:
    for name in names:
        if name in old and name in new and json_value(old[name]) != json_value(new[name]):
            yield _difference(prefix + name, old[name], new[name])


def _difference(field: str, logged: Any, now: Any) -> dict[str, str]:
    return {"field": field, "logged": str(logged)[:_SHOWN], "now": str(now)[:_SHOWN]}


def logged_user(steps: Sequence[Mapping[str, Any]], task: Task) -> LoggedUser | None:
    """Return a user that answers as in an episode's logged steps; None if no user answered."""
    replies = user_replies(steps, [step.get("messages") or () for step in steps])
    if not replies and task.kind != "clarify":
        return None
    # complaints of calls that could not be read are the environment's own
    said = [
        str(replies[index]["content"]) if index in replies else None
        for index, step in enumerate(steps)
        if not step.get("calls") and not (index in replies and step.get("error") in UNREAD)
    ]
    return LoggedUser(said)
