"""Replay of a logged episode: the user it had, and where a new one differs from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fctncalling.algorithms.run.logs import json_value
from fctncalling.data.types import Task
from fctncalling.envs.users import LoggedUser
from fctncalling.evaluation.agents.agent import PlayedEpisode
from fctncalling.evaluation.episode_log import episode_json, user_replies, verdict_fields

_STEP_FIELDS = tuple("turn text calls executed results error reward observation_sha256".split())
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
        if name in old and name in new and json_value(old[name]) != json_value(new[name]):
            yield _difference(prefix + name, old[name], new[name])


def _difference(field: str, logged: Any, now: Any) -> dict[str, str]:
    return {"field": field, "logged": str(logged)[:_SHOWN], "now": str(now)[:_SHOWN]}


def logged_user(steps: Sequence[Mapping[str, Any]], task: Task) -> LoggedUser | None:
    """Return a user that answers as in an episode's logged steps; None where no user answered."""
    replies = user_replies(steps, [step.get("messages") or () for step in steps])
    if not replies and task.kind != "clarify":
        return None
    # complaints of calls that could not be read are the environment's own
    said = [
        str(replies[index]["content"]) if index in replies else None
        for index, step in enumerate(steps)
        if not step.get("calls") and not (index in replies and step.get("error") == "malformed")
    ]
    return LoggedUser(said)
