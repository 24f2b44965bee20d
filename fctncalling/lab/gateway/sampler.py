"""Sampler: one engine behind many threads; a row's tokens stay in a slot between its requests."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

import torch

from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import Action, Engine, EngineError, Request

IDLE_WAIT_S = 0.05  # how long the sampler sleeps at most before it looks whether to end


@dataclass
class SamplingJob:
    """An action to sample after token ids; `answer` is set to it, or to an error."""

    ids: list[int]
    owner: str  # whose rows may go on in one slot: the session
    stream: torch.Generator
    temperature: float | None = None  # None: the engine's
    max_new_tokens: int | None = None
    stop: Sequence[str] = ()
    on_token: Callable[[int, float | None], None] | None = None
    answer: Future[Action] = field(default_factory=Future)


@dataclass
class _HeldSlot:
    """A slot of the engine and the sequence that it holds."""

    slot: int
    held: list[int] = field(default_factory=list)
    owner: str = ""
    stream: torch.Generator | None = None
    job: SamplingJob | None = None
    last_used: int = 0


class Sampler:
    """Sampler of many sessions' actions in the one thread that calls `run`."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.num_jobs = 0
        self._inbox: queue.SimpleQueue[SamplingJob | None] = queue.SimpleQueue()
        self._waiting: deque[SamplingJob] = deque()
        self._closed = threading.Event()

    def submit(self, job: SamplingJob) -> Future[Action]:
        """Hand over a job from any thread."""
        if self._closed.is_set():
            job.answer.set_exception(EngineError("the gateway is closing"))
            return job.answer
        self._inbox.put(job)
        return job.answer

    def wake(self) -> None:
        """Wake `run` to check at once whether to end."""
        self._inbox.put(None)

    def run(self, engine: Engine, over: Callable[[], bool]) -> None:
        """Sample with an engine until `over` is true; jobs that are left then fail.

        The engine keeps no sequence of an earlier call: weights may have changed.
        """
        slots = [_HeldSlot(slot) for slot in range(self.num_slots)]
        engine.allocate_slots(self.num_slots)
        engine.interrupted = lambda wanted: not self._inbox.empty()
        try:
            while not over():
                busy = any(held_slot.job is not None for held_slot in slots)
                self._collect(wait=not busy)
                self._begin_waiting(engine, slots)
                if any(held_slot.job is not None for held_slot in slots):
                    self._advance(engine, slots)
        finally:
            self._fail_all(slots, EngineError("the gateway stopped sampling"))
            engine.release()

    def close(self) -> None:
        """Refuse all further jobs, and fail those that nobody will sample."""
        self._closed.set()
        self.wake()
        self._fail_all([], EngineError("the gateway is closing"))

    def _collect(self, *, wait: bool) -> None:
        """Take the submitted jobs; wait for one if nothing runs."""
        try:
            job = self._inbox.get(timeout=IDLE_WAIT_S) if wait else self._inbox.get_nowait()
            while True:
                if job is not None:
                    self._waiting.append(job)
                job = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _begin_waiting(self, engine: Engine, slots: Sequence[_HeldSlot]) -> None:
        while self._waiting and (free := [each for each in slots if each.job is None]):
            job = self._waiting.popleft()
            if job.answer.cancelled():
                continue
            self.num_jobs += 1
            held_slot = _best_slot(free, job)
            held_slot.last_used = self.num_jobs
            new_ids = self._new_ids(engine, held_slot, job)
            held_slot.job = job
            held_slot.held += new_ids
            request = Request(
                held_slot.slot,
                new_ids,
                max_new_tokens=job.max_new_tokens,
                temperature=job.temperature,
                stop=tuple(job.stop),
                on_token=job.on_token,
            )
            self._submit(engine, held_slot, request)

    def _submit(self, engine: Engine, held_slot: _HeldSlot, request: Request) -> None:
        """Hand a request to the engine; a job that it refuses fails alone."""
        try:
            engine.submit(request)
        except Exception as error:
            job, held_slot.job = held_slot.job, None
            held_slot.owner = ""
            if job is not None:
                _answer(job, EngineError(f"{type(error).__name__}: {error}"))

    @staticmethod
    def _new_ids(engine: Engine, held_slot: _HeldSlot, job: SamplingJob) -> list[int]:
        """Return the ids not cached yet; clear the slot on a mismatch."""
        if _goes_on(held_slot, job):
            return job.ids[len(held_slot.held) :]
        if isinstance(engine, GenerationEngine):
            engine.begin_sequence(held_slot.slot, stream=job.stream)
        else:
            seed = int(torch.randint(2**31, (), generator=job.stream))
            engine.begin_sequence(held_slot.slot, seed)
        held_slot.held = []
        held_slot.owner = job.owner
        held_slot.stream = job.stream
        return list(job.ids)

    def _advance(self, engine: Engine, slots: Sequence[_HeldSlot]) -> None:
        try:
            finished = engine.advance()
        except Exception as error:  # the engine is started anew: what ran in it is lost
            self._fail_all(slots, EngineError(f"{type(error).__name__}: {error}"))
            engine.allocate_slots(self.num_slots)
            return
        for slot, action in finished:
            held_slot = slots[slot]
            job, held_slot.job = held_slot.job, None
            held_slot.held += action.ids
            if action.failure is not None:
                held_slot.held = []
                held_slot.owner = ""
            if job is not None:
                _answer(job, action if action.failure is None else action.failure)

    def _fail_all(self, slots: Sequence[_HeldSlot], error: EngineError) -> None:
        """Fail all running, waiting and submitted jobs."""
        self._collect(wait=False)
        jobs = [held_slot.job for held_slot in slots if held_slot.job is not None]
        for job in (*jobs, *self._waiting):
            _answer(job, error)
        self._waiting.clear()
        for held_slot in slots:
            held_slot.job = None
            held_slot.held = []
            held_slot.owner = ""


def _answer(job: SamplingJob, answer: Action | EngineError) -> None:
    """Answer a job, unless who waited for it has given up or was answered."""
    with contextlib.suppress(InvalidStateError):
        if isinstance(answer, Action):
            job.answer.set_result(answer)
        else:
            job.answer.set_exception(answer)


def _goes_on(held_slot: _HeldSlot, job: SamplingJob) -> bool:
    """Whether a slot holds a prefix of a job's ids, and draws from the same stream."""
    held = len(held_slot.held)
    own = held_slot.owner == job.owner and held_slot.stream is job.stream
    return own and 0 < held < len(job.ids) and held_slot.held == job.ids[:held]


def _best_slot(free: Sequence[_HeldSlot], job: SamplingJob) -> _HeldSlot:
    """Return the free slot with the longest prefix of a job's ids, else the one unused longest."""
    fitting = [held_slot for held_slot in free if _goes_on(held_slot, job)]
    if fitting:
        return max(fitting, key=lambda held_slot: len(held_slot.held))
    return min(free, key=lambda held_slot: held_slot.last_used)
