"""Rollout backend on Ray: a fault-tolerant pool of workers."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fctncalling.algorithms.config import SettingError, TrainConfig, resolve_device
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from fctncalling.algorithms.generation.engine_api import RolloutError
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.weight_sync import Weights, load_policy_state, policy_state
from fctncalling.algorithms.run.interruption import Interruption
from fctncalling.data.errors import RewardError
from fctncalling.envs.errors import MissingExtra, import_extra
from fctncalling.training.rollouts.rollout_backends import (
    LocalRollout,
    OnEpisode,
    Rollout,
    RolloutResult,
    RolloutRound,
    merge_shares,
    round_shares,
)
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import make_task_setup

logger = logging.getLogger(__name__)

MAX_LOSSES = 3  # workers in a row that one share, or the start of a worker, may cost
WARN_INTERVAL_S = 60.0


class WorkerLost(Exception):
    """Worker that was lost; the message has its name and the reason."""


@dataclass(eq=False)
class Job:
    """Job of a worker pool: shares of work submitted together, and their results."""

    shares: Sequence[Any]
    results: dict[int, Any] = field(default_factory=dict)  # share -> its result
    losses: dict[int, int] = field(default_factory=dict)  # share -> workers it has cost


class WorkerPool:
    """Pool of `count` workers that replaces lost ones and repeats their shares.

    RolloutError if no worker could be started for `patience_s`, or a share lost every worker
    that played it. transport: a RayTransport, or what has its methods.
    """

    def __init__(
        self,
        transport: Any,
        count: int,
        *,
        patience_s: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self.count = count
        self._patience_s = patience_s
        self._clock = clock
        self._idle: deque[tuple[int, Any]] = deque()  # (number, worker)
        self._starting: dict[Any, tuple[int, Any]] = {}  # ticket -> (number, worker)
        # ticket -> (number, worker, job, share)
        self._busy: dict[Any, tuple[int, Any, Job, int]] = {}
        self._waiting: deque[tuple[Job, int]] = deque()
        self._failed_starts = 0  # since one last succeeded
        self.num_lost = 0
        for number in range(count):
            self._start_worker(number)

    def submit_job(self, shares: Sequence[Any]) -> Job:
        """Submit a job: queue its shares after those of earlier jobs."""
        job = Job(shares)
        self._waiting.extend((job, share) for share in range(len(shares)))
        self._hand_out()
        return job

    def finish_job(self, job: Job, on_result: Callable[[Any], None] | None = None) -> list[Any]:
        """Finish a job: wait for it and return its results in order."""
        num_warnings = 0
        empty_since: float | None = None  # when it was first seen that no worker is there
        while len(job.results) < len(job.shares):
            before = len(job.results)
            for ticket in self._transport.wait([*self._busy, *self._starting], 1.0):
                self._settle(ticket, job, on_result)
            self._hand_out()
            if self._busy or len(job.results) > before:
                empty_since = None
                continue
            empty_since = self._clock() if empty_since is None else empty_since
            empty_s = self._clock() - empty_since
            if empty_s > self._patience_s:
                raise RolloutError(
                    f"no rollout worker could be started for {empty_s:.0f} s: is there room for "
                    f"{self.count} in the cluster?"
                )
            if empty_s > WARN_INTERVAL_S * (num_warnings + 1):
                num_warnings += 1
                logger.warning("no rollout worker is there; waiting for one since %.0f s", empty_s)
        return [job.results[share] for share in range(len(job.shares))]

    def close(self) -> None:
        """Close the pool: stop all workers, busy or not."""
        for _, worker, *_ in [*self._idle, *self._starting.values(), *self._busy.values()]:
            self._transport.stop_worker(worker)
        self._idle.clear()
        self._starting = {}
        self._busy = {}

    def _hand_out(self) -> None:
        while self._idle and self._waiting:
            (number, worker), (job, share) = self._idle.popleft(), self._waiting.popleft()
            ticket = self._transport.submit(worker, job.shares[share])
            self._busy[ticket] = number, worker, job, share

    def _settle(self, ticket: Any, awaited: Job, on_result: Callable[[Any], None] | None) -> None:
        """Handle a ready ticket: a started worker, a result, or a loss."""
        if ticket in self._starting:
            number, worker = self._starting.pop(ticket)
            try:
                self._transport.get_result(worker, ticket)
            except WorkerLost as lost:
                self._failed_starts += 1
                self._replace(number, worker, lost, self._failed_starts, "could not be started")
                return
            self._failed_starts = 0
            self._idle.append((number, worker))
            return
        number, worker, job, share = self._busy.pop(ticket)
        try:
            result = self._transport.get_result(worker, ticket)
        except WorkerLost as lost:
            self._waiting.appendleft((job, share))
            job.losses[share] = job.losses.get(share, 0) + 1
            self._replace(
                number, worker, lost, job.losses[share], "was lost; another plays its episodes"
            )
            return
        job.results[share] = result
        self._idle.append((number, worker))
        if on_result is not None and job is awaited:
            on_result(result)

    def _replace(self, number: int, worker: Any, lost: WorkerLost, losses: int, what: str) -> None:
        self.num_lost += 1
        self._transport.stop_worker(worker)
        if losses >= MAX_LOSSES:
            raise RolloutError(
                f"rollout worker {number} {what}, {losses} times in a row; the last: {lost}"
            )
        logger.warning("rollout worker %d %s, and a new one is started: %s", number, what, lost)
        self._start_worker(number)

    def _start_worker(self, number: int) -> None:
        worker, ticket = self._transport.start_worker(number)
        self._starting[ticket] = (number, worker)


class RolloutWorker:
    """Rollout worker, a process: plays shares of rounds with the weights sent along.

    It reads tasks and model from the same paths as the learner, and holds no state between shares
    but the newest weights.
    """

    def __init__(self, config: TrainConfig, run_config: RunConfig, number: int) -> None:
        from fctncalling.training.load_policy import load_policy

        self.config = dataclasses.replace(
            config,
            n_rollout_threads=-(-config.n_rollout_threads // run_config.num_rollout_workers),
            device="auto",  # what this worker was given, whatever the learner has
            # what only learning needs is left out: a critic's own model, a reference
            critic="head",
            kl_coef=0.0,
            init_critic_from=None,
        )
        device = resolve_device("auto")
        with contextlib.redirect_stdout(io.StringIO()):  # the learner has said it all
            setup = make_task_setup(self.config, run_config)
            self.policy, template = load_policy(self.config, run_config, None, device)
        self._version: int | None = None
        process_group = ProcessGroup(rank=number + 1, device=device)
        self._rollout = LocalRollout(
            self.config, self.policy, template, setup.make_env, process_group
        )

    def location(self) -> tuple[str, int, str]:
        """Return the worker's location: host name, process id and Ray node id."""
        library: Any = import_module("ray")
        return socket.gethostname(), os.getpid(), str(library.get_runtime_context().get_node_id())

    def play(
        self, weights: Weights, rollout_round: RolloutRound, numbers: Sequence[int]
    ) -> RolloutResult:
        """Play the episodes of a round that have these numbers."""
        cpu = time.process_time()
        if self._version != rollout_round.version:
            load_policy_state(self.policy, weights)
            self._version = rollout_round.version
        result = self._rollout.play_share(rollout_round, numbers)
        return result._replace(cpu_seconds=time.process_time() - cpu)


PATHS = (
    "dataset_path",
    "eval_dataset_path",
    "model_name_or_path",
    "chat_template",
    "prompt_path",
    "tool_config_path",
)
NODE_DEATH_DELAY_S = 30.0  # until Ray knows that a node is gone: it asks each every 3 s, five times
RAY_TIMEOUTS = {  # Ray's own 15 to 60 s are too few on a busy machine
    "RAY_raylet_start_wait_time_s": "180",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_agent_register_timeout_ms": "600000",
}
T = TypeVar("T", TrainConfig, RunConfig)


class WorkerShare(NamedTuple):
    """Worker's share of a round's episodes."""

    weights: Any  # a reference into the object store
    rollout_round: RolloutRound
    numbers: Sequence[int]


class RayTransport:
    """Ray transport: workers are actors, spread over a cluster's machines."""

    def __init__(self, ray: Any, config: TrainConfig, run_config: RunConfig) -> None:
        self._ray = ray
        self._arguments = (config, run_config)
        self._locations: dict[Any, str] = {}  # worker -> machine and process
        self._nodes: dict[Any, str] = {}  # worker -> the node Ray put it on
        self._kind = ray.remote(RolloutWorker).options(
            num_cpus=config.torch_threads,
            num_gpus=run_config.rollout_worker_gpus,
            scheduling_strategy="SPREAD",
        )

    def start_worker(self, number: int) -> tuple[Any, Any]:
        """Start a worker, a Ray actor; its ticket is ready once model and environments are."""
        worker = self._kind.remote(*self._arguments, number)
        return worker, worker.location.remote()

    def submit(self, worker: Any, share: WorkerShare) -> Any:
        """Submit a share to a worker; Ray copies the weights once to each machine."""
        return worker.play.remote(share.weights, share.rollout_round, share.numbers)

    def wait(self, tickets: Sequence[Any], timeout_s: float) -> list[Any]:
        """Wait for tickets; return those that are ready."""
        if not tickets:
            return []
        ready, _ = self._ray.wait(list(tickets), num_returns=1, timeout=timeout_s)
        more, _ = self._ray.wait(list(tickets), num_returns=len(tickets), timeout=0)
        return list(dict.fromkeys([*ready, *more]))

    def get_result(self, worker: Any, ticket: Any) -> Any:
        """Get the result of a ticket.

        WorkerLost if actor, machine or result is gone, RewardError of a user's reward, RuntimeError
        where playing failed otherwise.
        """
        exceptions = self._ray.exceptions
        try:
            result = self._ray.get(ticket)
        except exceptions.RayTaskError as error:
            if isinstance(error.cause, RewardError):
                raise error.cause from None
            raise RuntimeError(
                f"a rollout worker on {self._locations.get(worker, 'its way')} failed: {error}"
            ) from error
        except exceptions.RayError as error:
            raise WorkerLost(self._describe_loss(worker, error)) from error
        if not isinstance(result, RolloutResult):
            host, process, node = result
            self._locations[worker], self._nodes[worker] = f"{host}, process {process}", node
        return result

    def stop_worker(self, worker: Any) -> None:
        """Stop a worker: kill its actor."""
        with contextlib.suppress(Exception):  # it may be gone, as may all of Ray
            self._ray.kill(worker)
        self._locations.pop(worker, None)
        self._nodes.pop(worker, None)

    def _describe_loss(self, worker: Any, error: Exception) -> str:
        """Describe a lost worker: machine, process and cause."""
        where, node = self._locations.get(worker, "not yet placed"), self._nodes.get(worker)
        # A closed connection comes before the news of what closed it.
        cut_off = isinstance(error, self._ray.exceptions.ActorUnavailableError)
        until = time.monotonic() + NODE_DEATH_DELAY_S * cut_off
        while (alive := self._is_alive(node)) and time.monotonic() < until:
            time.sleep(0.2)
        what = "its process ended" if alive else "its node has left the cluster"
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{where}: {what} ({type(error).__name__}: {' '.join(lines)[:600]})"

    def _is_alive(self, node: str | None) -> bool:
        """Whether a node is in the cluster; an unknown one counts as in it."""
        return node is None or any(
            each["Alive"] for each in self._ray.nodes() if each["NodeID"] == node
        )


class RayRollout(Rollout):
    """Ray rollout: one share of a round for each Ray worker.

    Shares go by episode number, so results depend on the number of workers (by rounding alone), not
    on which of them is fast or lost.
    """

    def __init__(
        self,
        config: TrainConfig,
        run_config: RunConfig,
        policy: ActorCritic,
        processes: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        self.policy = policy
        self.processes = processes
        self._count = run_config.num_rollout_workers
        self._weights: tuple[int, Any] | None = None  # version and reference of what was put last
        self._jobs: dict[RolloutRound, Job | None] = {}
        # references to the weights of rounds not played yet
        self._round_weights: dict[RolloutRound, Any] = {}
        if processes.is_first:
            ray, started = connect_ray(run_config.ray_address, self._count * config.torch_threads)
            self._ray = ray
            self._started = started
            self.transport = RayTransport(self._ray, _absolute(config), _absolute(run_config))
            self.pool = WorkerPool(self.transport, self._count)

    def play(
        self,
        rollout_round: RolloutRound,
        interruption: Interruption,
        on_episode: OnEpisode | None = None,
    ) -> RolloutResult:
        """Play a round: return its episodes, which the first process collects and broadcasts."""
        if rollout_round not in self._round_weights:
            self.start_round(rollout_round)
        elif rollout_round not in self._jobs:
            self._start(rollout_round)
        job = self._jobs.pop(rollout_round)
        parts = None

        def report_part(part: RolloutResult) -> None:
            if on_episode is not None:
                for episode in part.episodes:
                    on_episode(episode)

        if job is not None:
            with contextlib.suppress(KeyboardInterrupt), interruption.allow_interrupts():
                parts = self.pool.finish_job(job, report_part)
        parts = self.processes.broadcast(parts)
        if parts is None:
            raise KeyboardInterrupt  # its weights stay, for a checkpoint
        del self._round_weights[rollout_round]
        shares = round_shares(rollout_round, len(parts))
        return RolloutResult.combine(parts, merge_shares(shares, [part.episodes for part in parts]))

    def start_round(
        self, rollout_round: RolloutRound, weights: Weights | None = None, *, now: bool = True
    ) -> None:
        """Start a round in the background; `play` returns it later."""
        if weights is None:
            self._round_weights[rollout_round] = self._put(rollout_round.version)
        else:
            self._round_weights[rollout_round] = (
                self._ray.put(weights) if self.processes.is_first else None
            )
        if now:
            self._start(rollout_round)

    def round_weights(self, rollout_round: RolloutRound) -> Weights | None:
        """Return the weights of a started round; None in all processes but the first."""
        if rollout_round not in self._round_weights or not self.processes.is_first:
            return None
        weights: Weights = self._ray.get(self._round_weights[rollout_round])
        return weights

    def _start(self, rollout_round: RolloutRound) -> None:
        """Submit the shares of a round to the pool."""
        count = min(self._count, len(rollout_round.task_ids))
        weights = self._round_weights[rollout_round]
        shares = [
            WorkerShare(weights, rollout_round, numbers)
            for numbers in round_shares(rollout_round, count)
        ]
        self._jobs[rollout_round] = (
            self.pool.submit_job(shares) if self.processes.is_first else None
        )

    def close(self) -> None:
        """Close: stop the workers, and Ray if it was started here."""
        if not self.processes.is_first:
            return
        self.pool.close()
        if self._started:
            self._ray.shutdown()

    def _put(self, version: int) -> Any:
        """Return a reference to the weights as they are.

        All processes take part, the first one puts them.
        """
        if self._weights is None or self._weights[0] != version:
            with self.processes.unsharded(self.policy) as policy:
                first = self.processes.is_first
                self._weights = version, self._ray.put(policy_state(policy)) if first else None
        return self._weights[1]


def connect_ray(address: str | None, num_cpus: int) -> tuple[Any, bool]:
    """Connect to a Ray cluster, or start one (address none).

    Return Ray and whether it was started here.
    """
    try:
        ray = import_extra("ray", "ray", "--num_rollout_workers")
    except MissingExtra as error:
        raise SettingError(str(error)) from None
    if ray.is_initialized():
        return ray, False
    if address is not None:
        try:
            ray.init(address=address, log_to_driver=True)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise SettingError(
                f"--ray_address {address}: no cluster to join there "
                f"({str(error).splitlines()[0]}). Start one with `ray start --head`, or leave the "
                "flag out for one on this machine alone. One that asks for a token, as Ray from "
                "2.59 on may, is joined with RAY_AUTH_MODE=token and the token that `ray "
                "get-auth-token` prints there"
            ) from error
        return ray, False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    for name, value in RAY_TIMEOUTS.items():
        os.environ.setdefault(name, value)
    ray.init(
        address="local",  # or it would join whatever cluster runs here, or ran and left its address
        num_cpus=max(os.cpu_count() or 1, num_cpus),
        include_dashboard=False,
        log_to_driver=True,
    )
    return ray, True


def _absolute(settings: T) -> T:
    """Return settings with absolute paths, for workers in other folders."""
    paths: dict[str, Any] = {}
    for name, value in vars(settings).items():
        is_path = name in PATHS and value and Path(value).exists()  # and no hub's name
        if name == "results_dir" or is_path:
            paths[name] = str(Path(value).resolve())
    return dataclasses.replace(settings, **paths)
