"""Data of a page as one JSON object; the page's scripts compute only the layout."""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from fctncalling.data.types import Task
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.prompting.prompts import TaskPrompt
from fctncalling.lab.viewer.consistency import consistency_checks
from fctncalling.lab.viewer.credit_rows import credit_rows, episode_lanes, lanes_json, with_credit
from fctncalling.lab.viewer.episode_entry import (
    episode_entry,
    group_member_entry,
    state_differences_by_turn,
)
from fctncalling.lab.viewer.headline import count_outcome, headline
from fctncalling.lab.viewer.run_files import (
    EPISODE_TYPES,
    LoadedRun,
    Record,
    ViewError,
    episode_files,
    read_lines,
)

MAX_ANSWERS = 24
"""Answers to one task that a page holds."""
MAX_EVALUATED = 40
"""Tasks of the evaluation that a page holds besides those it shows..."""
MAX_SURVEYED = 1024
"""...chosen among so many."""


def answers_over_updates(run: LoadedRun, tasks: Collection[str]) -> dict[str, list[Record]]:
    """Return the answers to each of `tasks` and to tasks of the evaluation, in order of updates.

    Of the evaluation's tasks those come first whose outcome or answer changed most often.
    """
    if run.folder is None:
        return {}
    wanted = set(tasks)
    shown: dict[str, list[Record]] = {}
    evaluated: dict[str, list[Record]] = {}
    for phase, update, path in episode_files(run.folder):
        for record in read_lines(path, [], EPISODE_TYPES):
            task = record.get("task_id")
            room = str(task) in evaluated or len(evaluated) < MAX_SURVEYED
            if task not in wanted and not (phase == "greedy" and room):
                continue
            entry = group_member_entry(episode_entry(record, run))
            entry |= {"phase": phase, "update": update, "id": f"{path.stem}:{entry['line']}"}
            (shown if task in wanted else evaluated).setdefault(str(task), []).append(entry)

    def num_changes(task: str, field: str) -> int:
        return sum(old[field] != new[field] for old, new in itertools.pairwise(evaluated[task]))

    ordered = sorted(
        evaluated, key=lambda task: (-num_changes(task, "success"), -num_changes(task, "texts"))
    )
    chosen = shown | {task: evaluated[task] for task in ordered[:MAX_EVALUATED]}
    for task, entries in chosen.items():
        if len(entries) > MAX_ANSWERS:
            step = (len(entries) - 1) / (MAX_ANSWERS - 1)
            chosen[task] = [entries[round(number * step)] for number in range(MAX_ANSWERS)]
    return chosen


FORMAT_VERSION = 2
MAX_EPISODES = 64
MAX_MEMBERS = 4096
"""Episodes of which groups and the ones left out are drawn."""
MAX_CHARACTERS = 8_000_000
"""Length of their answers."""
_SETTINGS = (
    *("env_name", "algorithm_name", "experiment_name", "seed", "model_name_or_path"),
    *("dataset_path", "episodes_per_update", "group_size", "gamma", "lam", "lam_value", "lr"),
    *("group_baseline", "critic", "critic_sees", "dynamic_sampling", "num_updates", "preset"),
    *("gamma_token", "lam_token", "max_new_tokens", "max_steps_per_turn", "temperature", "reward"),
    *("kl_coef", "clip_low", "clip_high", "ppo_epoch", "overlong", "handler", "command"),
)
_NOT_SHOWN = ("episodes", "pieces", "fields")  # of a token file's header
_NUMBERED = re.compile(r"/.*/(turn_)?\d+$")  # of a turn, or of a start place
FindTask = Callable[[Record], tuple[Task | None, Mapping[str, Any]]]
"""Episode record -> its task (None if unknown) and the tool classes that a user brings."""


def page_data(run: LoadedRun, find_task: FindTask, worst: int | None = None) -> dict[str, Any]:
    """Return a page's data, of the `worst` episodes of the file, else of the worst 64.

    The file is read line by line, and what is not shown is not kept. Raises ViewError if a token
    file and its episode file do not belong together.
    """
    seen = survey_episodes(run, MAX_EPISODES if worst is None else worst)
    of_tokens = _token_parts(run, seen)
    tasks = {entry["task"] for entry in seen.chosen.values()}
    for line, entry in seen.chosen.items():
        entry |= _world(entry, seen.records[line], find_task) | of_tokens.lanes.get(line, {})
    episodes = list(seen.chosen.values())
    if is_failures_first := run.kind in ("answers", "judged answers"):
        episodes.sort(key=lambda entry: (not entry["invalid"], entry["success"] is True))
    count, total = len(episodes), sum(each["episodes"] for each in seen.tally.values())
    shown = f"{count:,} episodes"
    if count < total:
        shown = f"{count:,} of {total:,} episodes, the worst (--worst N shows more)"
    return {
        "format": FORMAT_VERSION,
        "title": str(run.path),
        "sentence": headline(run, seen.tally),
        "kind": run.kind,
        "failures_first": is_failures_first,
        "update": run.update,
        "played": run.played,
        "algorithm": run.tokens.header["algorithm_name"] if run.tokens else None,
        "credit": of_tokens.credit,
        "header": run.tokens
        and {key: value for key, value in run.tokens.header.items() if key not in _NOT_SHOWN},
        "config": {name: run.config[name] for name in _SETTINGS if name in run.config},
        "metrics": [
            {key: value for key, value in line.items() if _is_curve(key, value)}
            for line in run.metrics
        ],
        "alarms": run.alarms,
        "notes": [*run.notes, *filter(None, [seen.note]), *([shown] if count < total else ())],
        "shown": shown,
        "num_read": total,
        "checks": of_tokens.checks or run.checks,
        "pieces": run.tokens.header["pieces"] if run.tokens else {},
        "episodes": episodes,
        "members": seen.members,
        "tally": seen.tally,
        "over_updates": answers_over_updates(run, tasks),
        "replay": "",
    }


def _world(entry: Record, record: Record, find_task: FindTask) -> Record:
    """Return the task's part of an entry: its tools' state, and user messages not in the log."""
    executes = entry["category"].startswith("multi_turn")
    silent = not entry["opening"] or any(
        now.get("turn") != before.get("turn") and not before.get("messages")
        for before, now in itertools.pairwise(entry["steps"])
    )
    if "steps" not in record or not (executes or silent):
        return {}
    task, tools = find_task(record)
    found: Record = {}
    if executes:
        steps = [*(record.get("played") or ()), *record["steps"]]
        turns, note = state_differences_by_turn(task, steps, tools)
        found = {"environment": turns, "environment_note": note}
    if task is not None and silent:
        found["questions"] = _questions(task, str(record.get("prompt_style", "bfcl")))
    return found


def _questions(task: Task, style: str) -> list[list[Record]]:
    """Return the users' messages of each turn, with the functions that are offered from then on."""
    said = [[dict(message) for message in turn] for turn in task.question]
    try:
        prompt = TaskPrompt(task, get_handler("python_calls"), style)
        return said[:1] + [prompt.messages(turn) for turn in range(1, len(said))]
    except (LookupError, TypeError, ValueError, AttributeError):  # function docs of no known form
        return said


class EpisodeSurvey(NamedTuple):
    """Entries and counts of one pass over a file."""

    chosen: dict[int, Record]  # entries to show, by line
    records: dict[int, Record]  # of those, and of all that the token file describes
    members: list[Record]
    tally: dict[str, Record]  # of each category: how many episodes, and what came of them
    note: str | None  # that not all episodes are among the members


def survey_episodes(run: LoadedRun, worst: int) -> EpisodeSurvey:
    """Read the run's episodes once; the worst are invalid ones, lowest returns, most surprising."""
    described = {each["line"]: each for each in run.tokens.episodes} if run.tokens else {}
    surprises = _surprises(run)
    heap: list[tuple[tuple[float, ...], Record, Record]] = []
    records: dict[int, Record] = {}
    members: list[Record] = []
    tally: dict[str, Record] = {}
    length = 0
    for record in run.episodes:
        entry = episode_entry(record, run)
        line = entry["line"]
        if line in described:
            entry |= _described(run, entry, described[line])
            records[line] = record
        count_outcome(tally, entry)
        member = group_member_entry(entry)
        length += sum(map(len, member["texts"]))
        if len(members) < MAX_MEMBERS and length <= MAX_CHARACTERS:
            members.append(member)
        goodness = tuple(-each for each in _badness(entry, surprises))
        item = ((*goodness, -float(line)), entry, record)
        (heapq.heappush if len(heap) < worst else heapq.heappushpop)(heap, item)
    cut = sum(each["episodes"] for each in tally.values()) > len(members)
    note = f"groups and left out: of the first {len(members):,} episodes" if cut else None
    chosen = {entry["line"]: entry for _, entry, _ in heap}
    records |= {entry["line"]: record for _, entry, record in heap}
    return EpisodeSurvey(dict(sorted(chosen.items())), records, members, tally, note)


def _described(run: LoadedRun, entry: Record, described: Record) -> Record:
    """Return the token file's fields of an episode."""
    if entry["task"] != described["task_id"]:
        raise ViewError(
            f"{run.episodes_file} line {entry['line']}: task {entry['task']}, but the token file "
            f"has {described['task_id']}: the two are of different runs"
        )
    return {
        "group": str(described["group"]),
        "reason": described["reason"] or entry["reason"],
        "learned": described["learned_from"],
    }


def _surprises(run: LoadedRun) -> dict[int, float]:
    """Return the surprise of each line's episode in nats: that of its least likely token."""
    tokens = run.tokens
    if tokens is None:
        return {}
    found = {}
    for index, lanes in enumerate(episode_lanes(tokens)):
        sampled = -tokens.rollout_logprobs[lanes.acted]
        known = sampled[np.isfinite(sampled)]
        found[tokens.episodes[index]["line"]] = float(known.max(initial=0.0))
    return found


def _badness(entry: Record, surprises: Mapping[int, float]) -> tuple[float, ...]:
    earned = entry["return"]
    return (
        float(not entry["invalid"]),
        earned if earned is not None and math.isfinite(earned) else -math.inf,
        -surprises.get(entry["line"], 0.0),
        -float(len(entry["steps"])),
    )


class TokenParts(NamedTuple):
    """Parts of a page that a token file gives."""

    lanes: dict[int, Record]  # of the chosen episodes, by line
    checks: list[Record]  # over all episodes
    credit: str | None = None  # name of the credit that the loss took


def _token_parts(run: LoadedRun, seen: EpisodeSurvey) -> TokenParts:
    tokens = run.tokens
    if tokens is None:
        return TokenParts({}, [])
    records = [seen.records.get(each["line"], {}) for each in tokens.episodes]
    lanes = episode_lanes(tokens, records)
    credit = credit_rows(tokens, lanes, run.config)
    parts = {
        each["line"]: {
            "lanes": with_credit(lanes_json(tokens, number, lanes[number]), credit, number)
        }
        for number, each in enumerate(tokens.episodes)
        if each["line"] in seen.chosen
    }
    checks = consistency_checks(tokens, lanes, records, run.config, credit)
    return TokenParts(parts, checks, credit.own)


def _is_curve(key: str, value: Any) -> bool:
    """Whether an entry of a metrics line is a number, and no category's."""
    is_general = (key != "line" and key.count("/") < 2) or _NUMBERED.search(key)
    return bool(is_general) and isinstance(value, int | float | None)
