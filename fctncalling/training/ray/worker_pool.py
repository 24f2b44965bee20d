"""Fault-tolerant worker pool."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fctncalling.algorithms.generation.engine_api import RolloutError

__all__ = ["Job", "RolloutError", "Transport", "WorkerLost", "WorkerPool"]

logger = logging.getLogger(__name__)

MAX_LOSSES = 3  # workers in a row that one share, or the start of a worker, may cost
TOLD_EVERY_S = 60.0


class WorkerLost(Exception):
    """A worker is gone; the message says which and why."""


class Transport(Protocol):
    """How workers are started and asked. A worker and a ticket are whatever the transport makes
    them.
    """

    def start_worker(self, number: int) -> tuple[Any, Any]:
        """Start worker `number`; return it, and a ticket that is ready when it is."""
        ...

    def ask(self, worker: Any, share: Any) -> Any:
        """Hand a share of work to a worker that is ready; return the ticket of its result."""
        ...

    def wait(self, tickets: Sequence[Any], timeout_s: float) -> list[Any]:
        """Return tickets that are ready, at least one or none after the time."""
        ...

    def fetch(self, worker: Any, ticket: Any) -> Any:
        """Return what a ready ticket stands for; WorkerLost where its worker is gone."""
        ...

    def stop_worker(self, worker: Any) -> None:
        """Let go of a worker, dead or alive."""
        ...


@dataclass(eq=False)
class Job:
    """Shares of work that belong together, and what came of them."""

    shares: Sequence[Any]
    results: dict[int, Any] = field(default_factory=dict)  # share -> its result
    losses: dict[int, int] = field(default_factory=dict)  # share -> workers it has cost


class WorkerPool:
    """`count` workers. RolloutError where none is to be had for `patience_s`, or a share kills
    every worker.
    """

    def __init__(
        self,
        transport: Transport,
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
        self._hiring: dict[Any, tuple[int, Any]] = {}  # ticket -> (number, worker)
        self._busy: dict[
            Any, tuple[int, Any, Job, int]
        ] = {}  # ticket -> (number, worker, job, share)
        self._waiting: deque[tuple[Job, int]] = deque()
        self._failed_hires = 0  # since one last succeeded
        self.num_lost = 0
        for number in range(count):
            self._start_worker(number)

    def start(self, shares: Sequence[Any]) -> Job:
        """Have shares worked on, after those of earlier jobs; `finish` gets what comes of them."""
        job = Job(shares)
        self._waiting.extend((job, share) for share in range(len(shares)))
        self._hand_out()
        return job

    def finish(self, job: Job, on_result: Callable[[Any], None] | None = None) -> list[Any]:
        """Return the results of a job, in the order of its shares."""
        told = 0
        alone_since: float | None = None  # when it was first seen that no worker is there
        while len(job.results) < len(job.shares):
            before = len(job.results)
            for ticket in self._transport.wait([*self._busy, *self._hiring], 1.0):
                self._settle(ticket, job, on_result)
            self._hand_out()
            if self._busy or len(job.results) > before:
                alone_since = None
                continue
            alone_since = self._clock() if alone_since is None else alone_since
            alone_s = self._clock() - alone_since
            if alone_s > self._patience_s:
                raise RolloutError(
                    f"no rollout worker could be started for {alone_s:.0f} s: is there room for "
                    f"{self.count} in the cluster?"
                )
            if alone_s > TOLD_EVERY_S * (told + 1):
                told += 1
                logger.warning("no rollout worker is there; waiting for one since %.0f s", alone_s)
        return [job.results[share] for share in range(len(job.shares))]

    def close(self) -> None:
        """Let go of all workers, whatever they are at."""
        for _, worker, *_ in [*self._idle, *self._hiring.values(), *self._busy.values()]:
            self._transport.stop_worker(worker)
        self._idle.clear()
        self._hiring = {}
        self._busy = {}

    def _hand_out(self) -> None:
        while self._idle and self._waiting:
            (number, worker), (job, share) = self._idle.popleft(), self._waiting.popleft()
            self._busy[self._transport.ask(worker, job.shares[share])] = (
                number,
                worker,
                job,
                share,
            )

    def _settle(self, ticket: Any, awaited: Job, on_result: Callable[[Any], None] | None) -> None:
        """Take what a ready ticket brings: a worker, a result,
        or the news that a worker is lost.
        """
        if ticket in self._hiring:
            number, worker = self._hiring.pop(ticket)
            try:
                self._transport.fetch(worker, ticket)
            except WorkerLost as lost:
                self._failed_hires += 1
                self._replace(number, worker, lost, self._failed_hires, "could not be started")
                return
            self._failed_hires = 0
            self._idle.append((number, worker))
            return
        number, worker, job, share = self._busy.pop(ticket)
        try:
            result = self._transport.fetch(worker, ticket)
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
        self._hiring[ticket] = (number, worker)
