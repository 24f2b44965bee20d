"""Rollout backend protocol, and the local backend."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import Engine
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.precision import pass_autocast
from fctncalling.algorithms.policy.weight_sync import Weights
from fctncalling.algorithms.rollout.arrival_log import ArrivalLog, ArrivalOrder
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.rollout.make_pool import deadline_s, env_pool
from fctncalling.algorithms.rollout.running_episode import TextEnv
from fctncalling.algorithms.run.interruption import Interruption
from fctncalling.algorithms.run.logs import results_folder

OnEpisode = Callable[[EpisodeRecord], None]


class RolloutRound(NamedTuple):
    """Episodes to play. What is said and done in the i-th of them follows from weights, seed, i and
    its task alone.
    """

    task_ids: tuple[str, ...]  # one episode each
    seed: int
    temperature: float
    version: int  # of the weights: how many updates are behind them
    group_size: int = 1  # so many neighbours share a task and their environments' seed


class RolloutResult(NamedTuple):
    """The episodes of a round, in the order of its tasks, and what they took."""

    episodes: list[EpisodeRecord]
    sampled_tokens: float = 0.0
    forward_tokens: float = 0.0  # 0 where a server does not tell
    cpu_seconds: float = 0.0  # of processes other than those that learn


class Rollout(Protocol):
    """Plays rounds with the policy as it is. The processes of a run call it alike, and get the
    same.
    """

    def play(
        self, wanted: RolloutRound, interruption: Interruption, on_episode: OnEpisode | None = None
    ) -> RolloutResult:
        """Return the episodes of a round; raises KeyboardInterrupt in all processes where one was
        interrupted.
        """
        ...

    def begin(
        self, wanted: RolloutRound, weights: Weights | None = None, *, now: bool = True
    ) -> None:
        """Have a round that `play` will ask for later played meanwhile, where that is possible.

        weights: none: the policy's as they are. Not `now`: they are kept for it, and it is played
        when asked for.
        """
        ...

    def weights_of(self, wanted: RolloutRound) -> Weights | None:
        """Return what a round that was begun and not yet played is played with, where this process
        knows it.
        """
        ...

    def close(self) -> None:
        """Close environments and connections."""
        ...


MakeEngine = Callable[[ActorCritic, RolloutRound], Engine]


class LocalRollout:
    """Plays in the processes that learn, each its share of the episodes.

    `make_actor` returns who speaks for the policy; none: a generation engine over its own weights.
    """

    def __init__(
        self,
        config: TrainConfig,
        policy: ActorCritic,
        template: ChatTemplate,
        make_env: Callable[[], TextEnv],
        processes: ProcessGroup = SINGLE_PROCESS,
        make_actor: MakeEngine | None = None,
    ) -> None:
        self.config = config
        self.policy = policy
        self.template = template
        self.processes = processes
        self.make_engine = make_actor or self._engine
        self.envs = env_pool(config, make_env, processes.count)
        self._arrival_logs = arrival_log(config, processes.rank)

    def play(
        self, wanted: RolloutRound, interruption: Interruption, on_episode: OnEpisode | None = None
    ) -> RolloutResult:
        """Return the episodes of a round; an interrupt of one process ends the playing of all."""
        numbers = range(len(wanted.task_ids))[self.processes.rank :: self.processes.count]
        own: list[EpisodeRecord] | None = None
        with self._engine_running(wanted) as actor:
            with contextlib.suppress(KeyboardInterrupt), interruption.allowed():
                own = self._collect(actor, wanted, numbers, on_episode)
            parts = [part for part in self.processes.gather(own) if part is not None]
        if len(parts) < self.processes.count:
            raise KeyboardInterrupt
        tokens = (self.processes.sum(number) for number in _tokens(actor))
        return RolloutResult(
            [parts[n % len(parts)][n // len(parts)] for n in range(len(wanted.task_ids))], *tokens
        )

    def play_share(self, wanted: RolloutRound, numbers: Sequence[int]) -> RolloutResult:
        """Return the episodes of these numbers of a round, played by this process alone."""
        with self._engine_running(wanted) as actor:
            return RolloutResult(self._collect(actor, wanted, numbers), *_tokens(actor))

    def begin(
        self, wanted: RolloutRound, weights: Weights | None = None, *, now: bool = True
    ) -> None:
        """Do nothing: whoever learns cannot play meanwhile."""

    def weights_of(self, wanted: RolloutRound) -> Weights | None:
        """Return None: nothing is begun here."""
        return None

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()

    @contextlib.contextmanager
    def _engine_running(self, wanted: RolloutRound) -> Iterator[Engine]:
        """Yield an actor of the policy as it is."""
        with (
            self.processes.unsharded(self.policy) as policy,
            pass_autocast(self.config, self.processes.device),
        ):
            yield self.make_engine(policy, wanted)

    def _collect(
        self,
        actor: Engine,
        wanted: RolloutRound,
        numbers: Sequence[int],
        on_episode: OnEpisode | None = None,
    ) -> list[EpisodeRecord]:
        order = ArrivalOrder(self.envs, self._arrival_logs.recorded(_name(wanted)))
        episodes = collect(
            self.envs,
            actor,
            self.template,
            [wanted.task_ids[number] for number in numbers],
            max_episode_tokens=self.config.max_episode_tokens,
            seed=wanted.seed,
            numbers=numbers,
            group_size=wanted.group_size,
            on_episode=on_episode,
            deadline_s=deadline_s(self.config),
            arrivals=order,
        )
        self._arrival_logs.note(_name(wanted), order.arrivals)
        return episodes

    def _engine(self, policy: ActorCritic, wanted: RolloutRound) -> GenerationEngine:
        return GenerationEngine(
            policy.model,
            self.template.stop_ids,
            temperature=wanted.temperature,
            max_new_tokens=self.config.max_new_tokens,
            decode=self.template.decode,
            max_cache_tokens=self.config.max_cache_tokens,
        )


def arrival_log(config: TrainConfig, rank: int) -> ArrivalLog:
    """Return the log of when slow tools' answers joined; SettingError where the one to follow
    cannot be read.
    """
    name = f"arrivals_{rank}.jsonl" if rank else "arrivals.jsonl"
    try:
        return ArrivalLog(
            Path(config.replay_arrivals or results_folder(config) / name),
            replayed=config.replay_arrivals is not None,
        )
    except (OSError, ValueError) as error:
        raise SettingError(f"--replay_arrivals: {error}") from error


def _name(wanted: RolloutRound) -> str:
    """Return what tells a round from all others of a run."""
    return f"{wanted.version}/{wanted.temperature:g}/{wanted.seed}"


def _tokens(actor: Engine) -> tuple[float, float]:
    """Return how many tokens an actor has sampled and passed through a model; 0 where it does not
    tell.
    """
    return float(getattr(actor, "num_sampled_tokens", 0)), float(
        getattr(actor, "num_forward_tokens", 0)
    )
