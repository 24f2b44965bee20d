"""Everything a page shows, as one JSON object; the page's scripts compute nothing but layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fctncalling.data.types import Task
from fctncalling.viewer.consistency import Checked, findings
from fctncalling.viewer.episode_entry import episode_entry, history_entry, member_entry
from fctncalling.viewer.run_files import LoadedRun, Record, ViewError, episode_files, read_lines
from fctncalling.viewer.state_differences import environment_turns
from fctncalling.viewer.token_lanes import episode_lanes, lanes_json, recomputed

FORMAT_VERSION = 1
MAX_EPISODES = 64
MAX_LATER = 24
"""Answers to one task at other updates that a page holds."""
_SETTINGS = (
    *("env_name", "algorithm_name", "experiment_name", "seed", "model_name_or_path"),
    *("dataset_path", "episodes_per_update", "group_size", "gamma", "lam", "lam_value", "lr"),
    *("gamma_token", "lam_token", "max_new_tokens", "max_steps_per_turn", "temperature", "reward"),
    *("kl_coef", "clip_low", "clip_high", "ppo_epoch", "overlong", "handler", "command"),
)
FindTask = Callable[[Record], tuple[Task | None, Mapping[str, Any]]]
"""Episode record -> its task (None if unknown) and the tool classes that a user brings."""


def page_data(run: LoadedRun, find_task: FindTask, worst: int | None = None) -> dict[str, Any]:
    """Return a page's data: of the `worst` episodes, else of the file's first 64.

    Raises ViewError if a token file and its episode file do not belong together.
    """
    entries = _entries(run)
    chosen = _chosen(entries, worst)
    token_parts, checks = _token_parts(run, chosen)
    for index in chosen:
        entry, record = entries[index], run.episodes[index]
        if entry["category"].startswith("multi_turn") and "steps" in record:
            task, tools = find_task(record)
            turns, note = environment_turns(task, record["steps"], tools)
            entry |= {"environment": turns, "environment_note": note}
    shown = [{**entries[index], **token_parts.get(index, {})} for index in chosen]
    return {
        "format": FORMAT_VERSION,
        "title": str(run.path),
        "kind": run.kind,
        "update": run.update,
        "algorithm": run.tokens.header["algorithm_name"] if run.tokens else None,
        "header": _header(run),
        "config": {name: run.config[name] for name in _SETTINGS if name in run.config},
        "metrics": [_metrics(line) for line in run.metrics],
        "alarms": run.alarms,
        "notes": run.notes,
        "checks": checks,
        "pieces": run.tokens.header["pieces"] if run.tokens else {},
        "episodes": shown,
        "members": [member_entry(entry) for entry in entries],
        "over_updates": _over_updates(run, {entry["task"] for entry in shown}),
    }


def _entries(run: LoadedRun) -> list[Record]:
    """Return the entry of each episode of the file, with what the token file knows of it."""
    if run.kind == "histories":
        return [history_entry(record) for record in run.episodes]
    entries = [episode_entry(record, run) for record in run.episodes]
    if run.tokens is not None:
        by_line = {entry["line"]: entry for entry in entries}
        for described in run.tokens.episodes:
            entry = by_line.get(described["line"])
            if entry is None:
                continue
            if entry["task"] != described["task_id"]:
                raise ViewError(
                    f"{run.episodes_file} line {entry['line']}: task {entry['task']}, but the "
                    f"token file has {described['task_id']}: the two are of different runs"
                )
            reason = described["reason"] or entry["reason"]
            entry |= {"group": str(described["group"]), "reason": reason}
            entry["learned"] = described["learned_from"]
    return entries


def _chosen(entries: list[Record], worst: int | None) -> list[int]:
    """Return the indices to show: invalid ones first, then by return and length, if asked for."""
    order = list(range(len(entries)))
    if worst is None:
        return order[:MAX_EPISODES]
    order.sort(key=lambda index: _badness(entries[index]))
    return sorted(order[: max(1, worst)])


def _badness(entry: Record) -> tuple[float, ...]:
    earned = entry["return"]
    return (
        float(not entry["invalid"]),
        earned if isinstance(earned, int | float) and math.isfinite(earned) else -math.inf,
        -float(len(entry["steps"])),
    )


def _token_parts(run: LoadedRun, chosen: list[int]) -> tuple[dict[int, Record], list[Record]]:
    """Return the lanes of the chosen episodes, and the checks over all of them."""
    tokens = run.tokens
    if tokens is None:
        return {}, []
    lanes = episode_lanes(tokens)
    credit = recomputed(tokens, lanes)
    place = {entry["line"]: index for index, entry in enumerate(run.episodes)}
    records = [
        run.episodes[place[each["line"]]] if each["line"] in place else {}
        for each in tokens.episodes
    ]
    parts = {}
    for number, described in enumerate(tokens.episodes):
        index = place.get(described["line"])
        if index in chosen:
            parts[index] = {"lanes": lanes_json(tokens, number, lanes[number], credit)}
    own = credit[tokens.header["algorithm_name"]]
    found = findings(Checked(tokens, lanes, records, run.config, own))
    checks = [
        {
            "check": name,
            "findings": [
                {**each._asdict(), "episode": tokens.episodes[each.episode]["episode_id"]}
                for each in of_check
            ],
        }
        for name, of_check in found.items()
    ]
    return parts, checks


def _header(run: LoadedRun) -> Record | None:
    if run.tokens is None:
        return None
    left_out = ("episodes", "pieces", "fields")
    return {key: value for key, value in run.tokens.header.items() if key not in left_out}


def _metrics(line: Mapping[str, Any]) -> Record:
    """Return a metrics line without its per-category parts."""
    return {
        key: value
        for key, value in line.items()
        if key != "line" and key.count("/") < 2 and isinstance(value, int | float | None)
    }


def _over_updates(run: LoadedRun, tasks: set[str]) -> dict[str, list[Record]]:
    """Return how each task shown was answered at other updates, in their order."""
    if run.folder is None:
        return {}
    found: dict[str, list[Record]] = {}
    for phase, update, path in episode_files(Path(run.folder)):
        for record in read_lines(path, []):
            if record.get("task_id") in tasks and "steps" in record:
                entry = member_entry(episode_entry(record, run))
                entry |= {"phase": phase, "update": update, "id": f"{path.stem}:{entry['line']}"}
                found.setdefault(record["task_id"], []).append(entry)
    return {task: _thinned(entries) for task, entries in found.items()}


def _thinned(entries: list[Record]) -> list[Record]:
    if len(entries) <= MAX_LATER:
        return entries
    step = (len(entries) - 1) / (MAX_LATER - 1)
    return [entries[round(number * step)] for number in range(MAX_LATER)]
