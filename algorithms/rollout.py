"""Collecting episodes: environments, a chat template and an actor, in; token records, out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fctncalling.algorithms.actor import Actor
from fctncalling.algorithms.batch import EpisodeRecord
from fctncalling.algorithms.play import Play, TextEnv
from fctncalling.algorithms.template import ChatTemplate

logger = logging.getLogger(__name__)


class _Ended(NamedTuple):
    """What remains of an episode."""

    record: EpisodeRecord
    cause: Exception | None  # what its environment raised
    overflow: int  # tokens of the context that its budget had no room for, 0 where it had


def collect(
    envs: list[TextEnv],
    actor: Actor,
    template: ChatTemplate,
    task_ids: Sequence[str],
    *,
    max_episode_tokens: int,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
    make_env: Callable[[], TextEnv] | None = None,
    on_episode: Callable[[EpisodeRecord], None] | None = None,
) -> list[EpisodeRecord]:
    """Return one episode a task id, in their order; `len(envs)` of them run at a time.

    Episode i is seeded by (seed, numbers[i]) alone (default: i), so neither the number of environments nor the order in
    which episodes end changes what is played (beyond rounding). An episode whose tokens would pass `max_episode_tokens`
    is truncated here. An environment that raises makes its episode invalid, and is replaced in `envs` where `make_env`
    is given. Where every episode is invalid, the last cause is raised.
    """
    if not envs:
        raise ValueError("no environment to play in: give at least one")
    seeds = [_episode_seed(seed, number) for number in numbers or range(len(task_ids))]
    actor.start(len(envs))
    waiting = list(reversed(range(len(task_ids))))
    running: dict[int, Play] = {}  # environment -> its episode
    done: dict[int, _Ended] = {}
    while waiting or running:
        for slot in range(len(envs)):
            while slot not in running and waiting:
                index = waiting.pop()
                play = Play(slot, index, task_ids[index], seeds[index], template, max_episode_tokens)
                play.begin(envs[slot], actor)
                running[slot] = play
                _move_ended(running, envs, done, make_env, on_episode)
        plays = list(running.values())
        for play, action in zip(plays, actor.generate([p.request(actor) for p in plays]), strict=True):
            play.step(envs[play.slot], action)
        _move_ended(running, envs, done, make_env, on_episode)
    actor.start(0)  # the caches are of no use once the weights change, and an update needs the memory
    return _checked([done[index] for index in range(len(task_ids))], max_episode_tokens)


def _move_ended(
    running: dict[int, Play],
    envs: list[TextEnv],
    done: dict[int, _Ended],
    make_env: Callable[[], TextEnv] | None,
    on_episode: Callable[[EpisodeRecord], None] | None,
) -> None:
    """Move ended episodes from `running` to `done`, and replace environments that raised."""
    for slot, play in [(slot, play) for slot, play in running.items() if play.ended]:
        del running[slot]
        done[play.index] = _Ended(play.record(), play.cause, play.overflow)
        if play.cause is not None and make_env is not None:
            _close_quietly(envs[slot])
            envs[slot] = make_env()
        if on_episode is not None:
            on_episode(done[play.index].record)


def _checked(ended: Sequence[_Ended], max_episode_tokens: int) -> list[EpisodeRecord]:
    """Return the records; warn of those that had no room, raise where none could be played."""
    overflows = [(one.overflow, one.record.task_id) for one in ended if one.overflow]
    if overflows:
        logger.warning(
            "%d of %d episodes were truncated, having no room for an action within --max_episode_tokens %d: "
            "one came to %d tokens of context (task %s)",
            *(len(overflows), len(ended), max_episode_tokens, *max(overflows)),
        )
    causes = [one.cause for one in ended if one.cause is not None]
    if causes and all(one.record.invalid for one in ended):
        raise RuntimeError(
            f"every one of {len(ended)} episodes failed in the environment; the last: {causes[-1]}"
        ) from causes[-1]
    return [one.record for one in ended]


def _episode_seed(seed: int, index: int) -> int:
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0] & 0x7FFFFFFF)


def _close_quietly(env: TextEnv) -> None:
    try:
        env.close()
    except Exception as error:
        logger.warning("closing a failed environment raised %s: %s", type(error).__name__, error)
