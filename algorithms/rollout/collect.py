"""Collect episodes: environments and an engine in, token records out."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import Engine, RolloutError
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.env_pool import EnvPool, EnvResponse, InlineEnvPool, TextEnv
from fctncalling.algorithms.rollout.running_episode import RunningEpisode
from fctncalling.data.errors import RewardError

logger = logging.getLogger(__name__)


class EndedEpisode(NamedTuple):
    """Finished episode: its record, and why it failed or was cut."""

    position: int  # of its task id among those that were given
    record: EpisodeRecord
    cause: Exception | None  # that its environment raised
    overflow: int  # length of the context that left no room for an action, 0 if it did


def collect(
    envs: list[TextEnv] | EnvPool,
    engine: Engine,
    template: ChatTemplate,
    task_ids: Sequence[str],
    *,
    max_episode_tokens: int,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
    group_size: int = 1,
    make_env: Callable[[], TextEnv] | None = None,
    on_episode: Callable[[EpisodeRecord], None] | None = None,
    deadline_s: float = math.inf,
) -> list[EpisodeRecord]:
    """Collect episodes: play one for each task id, `len(envs)` at a time, returned in order.

    Episode i is seeded by (seed, numbers[i]) alone (default: i), so neither the number of
    environments nor the order in which episodes end changes what is played (beyond rounding). An
    episode whose tokens would pass `max_episode_tokens` is truncated here. An environment that
    raises, or works for more than `deadline_s` on one episode, makes that episode invalid and is
    replaced (of a list of them, which work in this thread, where `make_env` is given; they know no
    deadline). Where every episode is invalid, RolloutError tells the last
    cause: a run whose tools are gone ends, and does not go on for ever and learn nothing.

    Each `group_size` numbers in a row are a group: their environments are reset with one seed, so
    that they face the same task, also where the seed decides it; what the policy samples is seeded
    for each episode apart.
    """
    done: dict[int, EndedEpisode] = {}
    for ended in iter_episodes(
        envs,
        engine,
        template,
        task_ids,
        max_episode_tokens=max_episode_tokens,
        seed=seed,
        numbers=numbers,
        group_size=group_size,
        make_env=make_env,
        deadline_s=deadline_s,
    ):
        done[ended.position] = ended
        if on_episode is not None:
            on_episode(ended.record)
    _require_one_valid([*done.values()])
    return [done[index].record for index in range(len(task_ids))]


def iter_episodes(
    envs: list[TextEnv] | EnvPool,
    engine: Engine,
    template: ChatTemplate,
    task_ids: Sequence[str],
    *,
    max_episode_tokens: int,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
    group_size: int = 1,
    make_env: Callable[[], TextEnv] | None = None,
    deadline_s: float = math.inf,
) -> Iterator[EndedEpisode]:
    """Yield the episodes that `collect` plays as they end, invalid ones among them."""
    if not len(envs):
        raise ValueError("no environment to play in: give at least one")
    envs = InlineEnvPool(envs, make_env) if isinstance(envs, list) else envs
    seeds = episode_seeds(seed, numbers or range(len(task_ids)), group_size)
    episodes = [
        RunningEpisode(index, task_id, *own_seeds, template, max_episode_tokens)
        for index, (task_id, own_seeds) in enumerate(zip(task_ids, seeds, strict=True))
    ]
    overflows = list[tuple[int, str]]()
    for ended in _Collection(envs, engine, deadline_s).run(episodes):
        overflows += [(ended.overflow, ended.record.task_id)] * bool(ended.overflow)
        yield ended
    if overflows:
        logger.warning(
            "%d of %d episodes were truncated, having no room for an action within "
            "--max_episode_tokens %d: one came to %d tokens of context (task %s)",
            *(len(overflows), len(episodes), max_episode_tokens, *max(overflows)),
        )


def episode_seeds(seed: int, numbers: Sequence[int], group_size: int) -> list[tuple[int, int]]:
    """Return the seeds of each episode: (sampling seed, environment seed)."""
    return [
        (derive_seed(seed, number), derive_seed(seed, number - number % group_size))
        for number in numbers
    ]


class _Collection:
    """Scheduler of a rollout's episodes.

    Waiting, running (in the engine or in an environment), done.
    """

    def __init__(self, envs: EnvPool, engine: Engine, deadline_s: float) -> None:
        self.envs = envs
        self.engine = engine
        self.deadline_s = deadline_s
        self.running: dict[int, RunningEpisode] = {}  # slot -> its episode
        self.generating: set[int] = set()  # slots with a request in the engine

    def run(self, episodes: Sequence[RunningEpisode]) -> Iterator[EndedEpisode]:
        """Play all episodes, and yield them as they end."""
        waiting = list(reversed(episodes))
        self.envs.start()
        num_slots = min(len(self.envs), len(episodes))  # a slot's cache is as long as the longest
        self.engine.allocate_slots(num_slots)
        self.engine.interrupted = self._have_arrived
        while waiting or self.running:
            for slot in range(num_slots):
                if slot not in self.running and waiting:
                    self.running[slot] = episode = waiting.pop()
                    episode.slot = slot
                    self.envs.send(slot, episode.reset_request(), self.deadline_s)
            for answer in self.envs.recv(wait=not self.generating):
                yield from self._take(answer)
            for slot, action in self.engine.advance():
                episode = self.running[slot]
                self.generating.discard(slot)
                if action.failure is not None:
                    episode.fail(action.failure)
                    yield self._end(episode)
                    continue
                self.envs.send(
                    slot, episode.on_action(action), max(0.0, self.deadline_s - episode.env_seconds)
                )
        self.engine.release()  # an update needs the memory

    def _have_arrived(self, wanted: int) -> bool:
        """Whether generation should pause: so many responses came that no order holds back."""
        return not self.envs.in_order and self.envs.num_arrived >= wanted

    def _take(self, answer: EnvResponse) -> Iterator[EndedEpisode]:
        """Continue an episode with its environment's response; yield it if it ended."""
        episode = self.running[answer.slot]
        episode.env_seconds += answer.seconds
        if isinstance(answer.error, RewardError):
            raise answer.error  # a bug that every episode has: dropping these would bias the rest
        if answer.error is not None and not isinstance(answer.error, Exception):
            raise answer.error  # an interrupt
        if answer.error is not None:
            episode.fail(answer.error)
            self.envs.replace(answer.slot)
        elif episode.rows:
            episode.on_step(*answer.result)
        else:
            episode.on_reset(self.engine, *answer.result)
        if episode.ended:
            yield self._end(episode)
        else:
            self.engine.submit(episode.next_request(self.engine))
            self.generating.add(episode.slot)

    def _end(self, episode: RunningEpisode) -> EndedEpisode:
        del self.running[episode.slot]
        record = episode.to_record()
        return EndedEpisode(episode.index, record, episode.cause, episode.overflow)


def _require_one_valid(ended: Sequence[EndedEpisode]) -> None:
    """Raise RolloutError, with the last cause, where all episodes are invalid."""
    causes = [one.cause for one in ended if one.cause is not None]
    if causes and all(one.record.invalid for one in ended):
        raise RolloutError(
            f"every one of {len(ended)} episodes failed; the last: {type(causes[-1]).__name__}: "
            f"{causes[-1]}"
        ) from causes[-1]


class SeedStream(IntEnum):
    """Seed streams of a run, one for each use.

    Names of one number are one stream; runs are reproduced only as long as each keeps its own.
    """

    ROLLOUT = 1
    MINIBATCHES = 2
    CRITIC_FIT = 3
    CRITIC_WARM_UP_ROLLOUT = 3  # of update 0
    TASK_EPOCHS = 3  # the sampler's own words: (seed, 3, epoch)
    TASK_DRAWS = 4  # the sampler's: (seed, 4, position)


def derive_seed(*words: int) -> int:
    """Derive a seed below 2**31 from several numbers, such as a SeedStream."""
    return int(np.random.SeedSequence(words).generate_state(1)[0] & 0x7FFFFFFF)
