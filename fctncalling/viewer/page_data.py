"""Everything a page shows, as one JSON object; the page's scripts compute nothing but layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fctncalling.data.types import Task
from fctncalling.viewer.consistency import Checked, findings
from fctncalling.viewer.episode_entry import episode_entry, history_entry, member_entry
from fctncalling.viewer.over_updates import over_updates
from fctncalling.viewer.run_files import LoadedRun, Record, ViewError
from fctncalling.viewer.state_differences import environment_turns
from fctncalling.viewer.token_lanes import episode_lanes, lanes_json, recomputed

FORMAT_VERSION = 1
MAX_EPISODES = 64
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
    chosen = _chosen(entries, worst, _surprises(run))
    token_parts, checks = _token_parts(run, chosen)
    for index in chosen:
        entries[index] |= _world(entries[index], run.episodes[index], find_task)
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
        "over_updates": over_updates(run, {entry["task"] for entry in shown}),
    }


def _world(entry: Record, record: Record, find_task: FindTask) -> Record:
    """Return what the task knows: the state of its tools, and the users' words if the log has
    none.
    """
    executes = entry["category"].startswith("multi_turn")
    if "steps" not in record or not (executes or not entry["opening"]):
        return {}
    task, tools = find_task(record)
    found: Record = {}
    if executes:
        turns, note = environment_turns(task, record["steps"], tools)
        found = {"environment": turns, "environment_note": note}
    if task is not None and not entry["opening"]:
        found["questions"] = [[dict(message) for message in turn] for turn in task.question]
    return found


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


def _chosen(entries: list[Record], worst: int | None, surprises: Mapping[int, float]) -> list[int]:
    """Return the indices to show; the worst: invalid ones, lowest returns, most surprising."""
    order = list(range(len(entries)))
    if worst is None:
        return order[:MAX_EPISODES]
    order.sort(key=lambda index: _badness(entries[index], surprises))
    return sorted(order[: max(1, worst)])


def _badness(entry: Record, surprises: Mapping[int, float]) -> tuple[float, ...]:
    earned = entry["return"]
    return (
        float(not entry["invalid"]),
        earned if isinstance(earned, int | float) and math.isfinite(earned) else -math.inf,
        -surprises.get(entry["line"], 0.0),
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
