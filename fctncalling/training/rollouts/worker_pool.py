"""Fault-tolerant worker pool."""

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
from typing import Any, Protocol

from fctncalling.algorithms.config import TrainConfig, resolve_device
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.generation.engine_api import RolloutError
from fctncalling.algorithms.policy.weight_sync import Weights, load_policy_state
from fctncalling.training.proven_starts import ProvenStarts
from fctncalling.training.rollouts.rollout_backends import LocalRollout, RolloutResult, RolloutRound
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import make_task_setup

__all__ = ["Job", "RolloutError", "WorkerBackend", "WorkerLost", "WorkerPool"]

logger = logging.getLogger(__name__)

MAX_LOSSES = 3  # workers in a row that one share, or the start of a worker, may cost
WARN_INTERVAL_S = 60.0


class WorkerLost(Exception):
    """Worker that was lost; the message says which and why."""


class WorkerBackend(Protocol):
    """Interface of a transport that starts workers and runs work on them.

    Workers and tickets are opaque: whatever the backend makes them.
    """

    def start_worker(self, number: int) -> tuple[Any, Any]:
        """Start worker `number`; return it, and a ticket that is ready when it is."""
        ...

    def submit(self, worker: Any, share: Any) -> Any:
        """Submit a share of work to a ready worker; return the ticket of its result."""

    def wait(self, tickets: Sequence[Any], timeout_s: float) -> list[Any]:
        """Wait for tickets; return those that are ready, at least one or none after the time."""
        ...

    def get_result(self, worker: Any, ticket: Any) -> Any:
        """Get the result of a ready ticket; WorkerLost if its worker is gone."""

    def stop_worker(self, worker: Any) -> None:
        """Stop a worker, dead or alive."""


@dataclass(eq=False)
class Job:
    """Job of a worker pool: shares of work submitted together, and their results."""

    shares: Sequence[Any]
    results: dict[int, Any] = field(default_factory=dict)  # share -> its result
    losses: dict[int, int] = field(default_factory=dict)  # share -> workers it has cost


class WorkerPool:
    """Pool of `count` workers that replaces lost ones and repeats their shares.

    RolloutError if no worker could be started for `patience_s`, or a share lost every worker
    that played it.
    """

    def __init__(
        self,
        transport: WorkerBackend,
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
        """Submit a job: queue its shares behind those of earlier jobs."""
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
            make_env = setup.make_env
            if config.starts == "prefix":
                make_env = ProvenStarts(setup, config, run_config).make_env
            self.policy, template = load_policy(self.config, run_config, None, device)
        self._version: int | None = None
        process_group = ProcessGroup(rank=number + 1, device=device)
        self._rollout = LocalRollout(self.config, self.policy, template, make_env, process_group)

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
