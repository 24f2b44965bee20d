"""Differences between a logged episode and its replay."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fctncalling.data.types import Task
from fctncalling.evaluation.agents.agent import PlayedEpisode
from fctncalling.evaluation.episode_log import episode_json, verdict_fields

_STEP_FIELDS = (
    "turn",
    "text",
    "calls",
    "executed",
    "results",
    "error",
    "reward",
    "observation_sha256",
)
_VERDICT_FIELDS = (
    "verdict",
    "valid",
    "error_type",
    "strict_valid",
    "strict_error_type",
    "progress",
)
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
        if name in old and name in new and _plain(old[name]) != _plain(new[name]):
            yield _difference(prefix + name, old[name], new[name])


def _difference(field: str, logged: Any, now: Any) -> dict[str, str]:
    return {"field": field, "logged": str(logged)[:_SHOWN], "now": str(now)[:_SHOWN]}


def _plain(value: Any) -> Any:
    """Return a value as the trainer's logs write it: NaN and infinities as null, keys as texts."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
