"""Episodes of the ground truth, played by the trainer's rollout: masks, shares, lengths."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import RolloutError, ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.data.types import Task
from fctncalling.envs.prompting.prompts import JSON_TYPES
from fctncalling.evaluation.agents.agent import ScriptedPlayer
from fctncalling.evaluation.scripted_policies import DONE, message_end, oracle
from fctncalling.lab.doctor.finding import NOTHING, HealthCheck, fault, note, sound, unchecked

NUM_LONGEST = 6
"""Tasks that are played because they look longest, and as many spread over the file."""
MAX_TOKENS = 10**9
_LEFT_OPEN = frozenset({"any", ""})  # documented types that leave a value unrestricted, on purpose


class Span(NamedTuple):
    """Neighbouring tokens of one author."""

    author: str  # "context", "action" or "end"
    text: str
    num_tokens: int


def play_ground_truths(
    tasks: Sequence[Task], template: ChatTemplate, make_env: Callable[..., Any]
) -> list[EpisodeRecord]:
    """Return the ground truth's episodes of the longest tasks, and of some spread over the rest.

    Raises RolloutError where none can be played.
    """
    chosen = _chosen(tasks)
    players = {task.id: ScriptedPlayer(oracle, task, "", DONE) for task in chosen}

    def script(task_id: str, turn: int, step_in_turn: int, info: Mapping[str, Any]) -> str:
        return players[task_id].answer("", info)

    engine = ScriptedEngine(script, template.encode, message_end(template.ends, chosen))
    ids = [task.id for task in chosen]
    played = collect([make_env(tasks=chosen)], engine, template, ids, max_episode_tokens=MAX_TOKENS)
    return [each for each in played if not each.invalid]


def _chosen(tasks: Sequence[Task]) -> list[Task]:
    by_size = sorted(tasks, key=_size, reverse=True)
    spread = by_size[NUM_LONGEST :: max(1, len(by_size) // NUM_LONGEST)][:NUM_LONGEST]
    return list({task.id: task for task in (*by_size[:NUM_LONGEST], *spread)}.values())


def _size(task: Task) -> int:
    docs = [[each.name, each.description, each.parameters] for each in task.functions]
    return len(json.dumps([task.question, docs, task.ground_truth], default=str))


def schema_finding(tasks: Sequence[Task]) -> HealthCheck:
    """Return whether the types of all function docs have a JSON Schema type."""
    unknown: set[str] = set()
    for task in tasks:
        for doc in task.functions:
            unknown |= {each for each in _types(doc.parameters) if each not in JSON_TYPES}
    unknown -= _LEFT_OPEN
    if unknown:
        message = (
            f"types of parameters that JSON Schema does not know: {', '.join(sorted(unknown)[:5])}"
        )
        why = "The model is told no type for them, so it may pass anything"
        cure = "In tasks of your own write string, integer, number, boolean, array or object"
        return note("tool schemas", message, cure, why=why)
    return sound("tool schemas", "the model can be told the type of every parameter")


def _types(schema: Any) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    yield str(schema.get("type", ""))
    properties = schema.get("properties")
    for inner in properties.values() if isinstance(properties, Mapping) else ():
        yield from _types(inner)
    yield from _types(schema["items"]) if "items" in schema else ()


def episode_findings(
    episodes: Sequence[EpisodeRecord], template: ChatTemplate, num_tasks: int, context: int | None
) -> Iterator[HealthCheck]:
    """Yield findings on the token mask, on ends of actions, and on the longest task's length."""
    rows = [row for episode in episodes for row in episode.rows]
    acted = sum(sum(row.acted) for row in rows)
    total = sum(len(row.ids) for row in rows)
    ends = [row.ids[at] for row in rows for at, end in enumerate(row.ends_action) if end]
    wrong = [id_ for id_ in ends if id_ not in template.stop_ids]
    if wrong or not ends:
        message = f"{len(wrong)} of {len(ends)} right answers lack the token that ends an answer"
        why = "The model would not learn to stop"
        yield fault("mask", message, "See end of turn above, or the chat template", why=why)
    else:
        yield sound(
            "mask",
            f"{acted:,} of {total:,} tokens are trained ({100 * acted / total:.1f} %): the model's "
            "answers, each with the token that ends it",
            trained=acted,
            tokens=total,
        )
    longest = max(episodes, key=lambda each: max(len(row.ids) for row in each.rows))
    tokens = max(len(row.ids) for row in longest.rows)
    played = f"{len(episodes)} right solutions that were played (of {num_tasks} tasks)"
    message = f"the longest of {played} has {tokens} tokens"
    figures = {"tokens": tokens, "context": context, "task": longest.task_id}
    if context is not None and tokens > context:
        message += f" ({longest.task_id}), the model's context holds {context}"
        cure = "Take a model with a longer context, or leave such tasks out"
        yield fault("context", message, cure, why="It would be cut off, and fail")
    else:
        room = "has no limit" if context is None else f"holds {context}"
        yield sound("context", f"{message}; the model's context {room}", **figures)
    if not template.append_only:
        once = sum(max(len(row.ids) for row in episode.rows) for episode in episodes)
        per_episode = len(rows) / len(episodes)
        times = f"{total / max(1, once):.1f} times the tokens"
        message = f"an episode is trained in {per_episode:.1f} parts on average, of {times}"
        why = "The template rewrites what it wrote before; that costs time and changes no result"
        yield note("rows", message, NOTHING, why=why)


def spans_by_author(episode: EpisodeRecord, template: ChatTemplate) -> list[Span]:
    """Return the tokens of an episode's last row by author."""
    row = episode.rows[-1]
    spans: list[Span] = []
    start = 0
    authors = [
        "context" if not acted else "end" if end else "action"
        for acted, end in zip(row.acted, row.ends_action, strict=True)
    ]
    for at in range(1, len(authors) + 1):
        if at == len(authors) or authors[at] != authors[start]:
            spans.append(Span(authors[start], template.spell(row.ids[start:at]), at - start))
            start = at
    return spans


def ground_truth_findings(
    tasks: Sequence[Task],
    template: ChatTemplate,
    context: int | None,
    make_env: Callable[..., Any],
) -> tuple[list[HealthCheck], list[EpisodeRecord]]:
    """Return findings on episodes of the ground truth, and those episodes, the clearest first."""
    found = [schema_finding(tasks)]
    try:
        episodes = play_ground_truths(tasks, template, make_env)
    except (RolloutError, LookupError, ValueError, ImportError) as error:
        line = (str(error).splitlines() or [""])[0]
        cure = "fctncalling lint FILE says what is wrong with tasks"
        message = f"no right solution could be played: {line}"
        return [*found, unchecked("episodes", message, cure)], []
    found += episode_findings(episodes, template, len(tasks), context)
    return found, sorted(
        episodes, key=lambda each: (-min(each.num_steps, 4), len(each.rows[-1].ids))
    )
