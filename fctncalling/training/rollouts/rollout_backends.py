"""Rollout backend protocol, and the local backend."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import Engine
from fctncalling.algorithms.generation.role_engine import AdapterEngine, RoleEngine
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.precision import compute_dtype, pass_autocast
from fctncalling.algorithms.policy.weight_sync import Weights
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.rollout.env_pool import make_env_pool
from fctncalling.algorithms.rollout.running_episode import TextEnv
from fctncalling.algorithms.run.interruption import Interruption

OnEpisode = Callable[[EpisodeRecord], None]


class RolloutRound(NamedTuple):
    """Round of a rollout: a batch of episodes to play, reproducible from weights and seed."""

    task_ids: tuple[str, ...]  # one episode each
    seed: int
    temperature: float
    version: int  # of the weights: how many updates are behind them
    group_size: int = 1  # so many neighbours share a task and their environments' seed


class RolloutResult(NamedTuple):
    """Result of a rollout round: its episodes in order, token counts and CPU time."""

    episodes: list[EpisodeRecord]
    sampled_tokens: float = 0.0
    forward_tokens: float = 0.0  # this and the next two: 0 where a server does not tell
    prompt_tokens: float = 0.0  # that episodes gave to read
    shared_tokens: float = 0.0  # of them, those in shared prefixes: not computed again
    cpu_seconds: float = 0.0  # of processes other than those that learn

    @classmethod
    def combine(
        cls, parts: Sequence[RolloutResult], episodes: Sequence[EpisodeRecord] = ()
    ) -> RolloutResult:
        """Combine the results of parts of a round: their episodes, and sums of counts."""
        return cls(list(episodes), *map(sum, zip(*(part[1:] for part in parts), strict=True)))


def rollout_timings(
    results: Sequence[RolloutResult], num_steps: int, seconds: float
) -> dict[str, float | None]:
    """Return timings of rollout rounds: throughput, seconds, share of shared prompt tokens."""
    every = RolloutResult.combine(results)
    return {
        "charts/SPS": num_steps / seconds,
        "perf/rollout_tokens_per_s": every.sampled_tokens / seconds,
        "perf/rollout_forward_tokens_per_s": every.forward_tokens / seconds,
        "perf/time_s/rollout": seconds,
        "perf/prefix_hit_share": every.shared_tokens / every.prompt_tokens
        if every.prompt_tokens
        else None,
    }


class Rollout:
    """Base class of rollouts, backends which play rounds with the current policy.

    Methods are collective: all processes of a run call them, and get the same results.
    """

    def play(
        self,
        rollout_round: RolloutRound,
        interruption: Interruption,
        on_episode: OnEpisode | None = None,
    ) -> RolloutResult:
        """Play a round and return its episodes.

        Raises KeyboardInterrupt in all processes where one was interrupted.
        """
        raise NotImplementedError

    def start_round(
        self, rollout_round: RolloutRound, weights: Weights | None = None, *, now: bool = True
    ) -> None:
        """Start a round in the background, where the backend can; `play` returns it later.

        weights: None for the policy's current ones. now: False only stores the weights, and the
        round starts with `play`.
        """

    def round_weights(self, rollout_round: RolloutRound) -> Weights | None:
        """Return the weights of a started round, in the process that holds them, or None."""
        return None

    def close(self) -> None:
        """Close environments and connections."""


class EpisodeSource(Protocol):
    """Interface of a source of episodes in place of environments: an agent (--agent_command)."""

    def collect(
        self,
        engine: Engine,
        rollout_round: RolloutRound,
        numbers: Sequence[int],
        on_episode: OnEpisode | None = None,
    ) -> list[EpisodeRecord]:
        """Collect a round's episodes of these numbers, sampled by an engine."""
        ...

    def close(self) -> None:
        """Close the source: end the agents."""


MakeEngine = Callable[[ActorCritic, RolloutRound], Engine]


class LocalRollout(Rollout):
    """Local rollout, in the learning processes, each of which plays its share.

    `make_engine` returns the engine that samples actions; None: a GenerationEngine over the
    policy's own weights. `source` plays in place of environments.
    """

    def __init__(
        self,
        config: TrainConfig,
        policy: ActorCritic,
        template: ChatTemplate,
        make_env: Callable[[], TextEnv],
        processes: ProcessGroup = SINGLE_PROCESS,
        make_engine: MakeEngine | None = None,
        source: EpisodeSource | None = None,
    ) -> None:
        self.config = config
        self.source = source
        self.policy = policy
        self.template = template
        self.processes = processes
        self.make_engine = make_engine or self._local_engine
        self.envs = make_env_pool(config, make_env, processes.count)

    def play(
        self,
        rollout_round: RolloutRound,
        interruption: Interruption,
        on_episode: OnEpisode | None = None,
    ) -> RolloutResult:
        """Play a round and return its episodes; an interrupt of one process ends it in all."""
        shares = round_shares(rollout_round, self.processes.count)
        local_part: list[EpisodeRecord] | None = None
        with self._engine_running(rollout_round) as engine:
            with contextlib.suppress(KeyboardInterrupt), interruption.allow_interrupts():
                local_part = self._collect(
                    engine, rollout_round, shares[self.processes.rank], on_episode
                )
            parts = [part for part in self.processes.gather(local_part) if part is not None]
        if len(parts) < self.processes.count:
            raise KeyboardInterrupt
        return RolloutResult(
            merge_shares(shares, parts),
            *(self.processes.sum(number) for number in engine.token_counts),
        )

    def play_share(self, rollout_round: RolloutRound, numbers: Sequence[int]) -> RolloutResult:
        """Play this process's share of a round: the episodes of these numbers."""
        with self._engine_running(rollout_round) as engine:
            episodes = self._collect(engine, rollout_round, numbers)
            return RolloutResult(episodes, *engine.token_counts)

    def close(self) -> None:
        """Close the environments and agents."""
        self.envs.close()
        if self.source is not None:
            self.source.close()

    @contextlib.contextmanager
    def _engine_running(self, rollout_round: RolloutRound) -> Iterator[Engine]:
        """Context manager: an engine over the current policy, unsharded."""
        config, device = self.config, self.processes.device
        with (
            self.processes.unsharded(self.policy, compute_dtype(config, device)) as policy,
            pass_autocast(config, device),
        ):
            yield self.make_engine(policy, rollout_round)

    def _collect(
        self,
        engine: Engine,
        rollout_round: RolloutRound,
        numbers: Sequence[int],
        on_episode: OnEpisode | None = None,
    ) -> list[EpisodeRecord]:
        if self.source is not None:
            return self.source.collect(engine, rollout_round, numbers, on_episode)
        deadline_s = self.config.tool_deadline_s
        return collect(
            self.envs,
            engine,
            self.template,
            [rollout_round.task_ids[number] for number in numbers],
            max_episode_tokens=self.config.max_episode_tokens,
            seed=rollout_round.seed,
            numbers=numbers,
            group_size=rollout_round.group_size,
            on_episode=on_episode,
            deadline_s=math.inf if deadline_s is None else deadline_s,
        )

    def _local_engine(self, policy: ActorCritic, rollout_round: RolloutRound) -> Engine:
        adapters = policy.adapters
        roles = adapters.roles if adapters is not None else ()
        max_cache_tokens = self.config.max_cache_tokens
        if max_cache_tokens is not None:
            max_cache_tokens //= max(1, len(roles))

        def engine() -> GenerationEngine:
            return GenerationEngine(
                policy.model,
                self.template.stop_ids,
                temperature=rollout_round.temperature,
                max_new_tokens=self.config.max_new_tokens,
                decode=self.template.decode,
                max_cache_tokens=max_cache_tokens,
                share_prefixes=self.config.share_prefixes,
            )

        if adapters is None or not roles:
            return engine()
        return RoleEngine(
            {
                it: AdapterEngine(engine(), partial(adapters.use, adapters.actor_adapter_name(it)))
                for it in roles
            }
        )


def round_shares(rollout_round: RolloutRound, count: int) -> list[list[int]]:
    """Return `count` shares of a round's episode numbers.

    Whole groups in turn, as each reads its prompt once; episodes where there are fewer groups.
    """
    number, size = len(rollout_round.task_ids), rollout_round.group_size
    unit = size if number >= size * count else 1
    return [[n for n in range(number) if n // unit % count == rank] for rank in range(count)]


def merge_shares(
    shares: Sequence[Sequence[int]], parts: Sequence[Sequence[EpisodeRecord]]
) -> list[EpisodeRecord]:
    """Merge the episodes of a round's shares, in order of their numbers."""
    episodes = zip(itertools.chain(*shares), itertools.chain(*parts), strict=True)
    return [episode for _, episode in sorted(episodes, key=lambda numbered: numbered[0])]
