"""Answers in the episode files of a training run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.jsonl_records import InputError, SourceRecord, read_records
from fctncalling.data.bfcl import embedded_path
from fctncalling.data.categories import category_kind
from fctncalling.data.types import Call
from fctncalling.evaluation.agents.agent import as_tool_calls
from fctncalling.training.task_split import EMBEDDED_TASKS

_AS_PROMPTED = (None, "auto", "python_calls")


def read_answers(path: Path) -> Iterator[SourceRecord]:
    """Read JSON Lines of answers; a training run's episode becomes the answer that it holds."""
    return map(_answer_of_episode, read_records(path))


def run_config(episodes: Path) -> dict[str, Any]:
    """Return the config.json of the run that an episode file lies in; empty for another file."""
    config = episodes.resolve().parent.parent / "config.json"
    if episodes.resolve().parent.name != "episodes" or not config.is_file():
        return {}
    try:
        settings = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{config}: cannot be read: {error}") from None
    return settings if isinstance(settings, dict) else {}


_cached_config = lru_cache(run_config)


def _answer_of_episode(line: SourceRecord) -> SourceRecord:
    """Return the line, with an episode's steps as "response" in the form of `run`'s answers."""
    record = line.record
    if "response" in record or "steps" not in record:
        return line
    config = _cached_config(line.path)
    turns, calls = defaultdict[int, list[str]](list), dict[str, tuple[Call, ...]]()
    for step in [*(record.get("played") or ()), *line.field("steps", list, "the logged steps")]:
        try:
            turns[step["turn"]].append(step["text"])
            calls[step["text"]] = tuple(Call(**call) for call in step.get("calls") or ())
        except (TypeError, LookupError, AttributeError):
            raise line.error("steps", "expected each step with its turn, text and calls") from None
    texts = [turns[turn] for turn in range(max(turns, default=-1) + 1)]
    response: Any = texts
    if category_kind(str(record.get("category"))) not in ("multi_turn", "agentic", "clarify"):
        response = texts[-1][-1] if texts else ""
    handler, form = config.get("handler"), "prompting"
    if handler not in _AS_PROMPTED:  # the model's own form
        form = "tool_call_dots"
        response = response if handler == "tool_calls" else as_tool_calls(response, calls)
    named = {"form": form, "dataset_path": _task_file(line.path, config)}
    named |= {"id": record["task_id"]} if "task_id" in record else {}
    return line._replace(record={**named, **record, "response": response})


def _task_file(episodes: Path, config: dict[str, Any]) -> str | None:
    """Return the file of a run's tasks, as its settings name it; None where there are none."""
    is_training = episodes.name.startswith("train")
    own = None if is_training else config.get("eval_dataset_path")
    if not config or own or config.get("dataset_path"):
        return own or config.get("dataset_path")
    prefix = EMBEDDED_TASKS.get(str(config.get("env_name")), "")
    return str(embedded_path(f"{prefix}{'train' if is_training else 'held_out'}"))
