"""Environment pools: asynchronous reset and step, inline or in threads, with deadlines."""

from __future__ import annotations

import logging
import math
import queue
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium

from fctncalling.algorithms.config import TrainConfig
from fctncalling.data.timing import time_calls

logger = logging.getLogger(__name__)

TextEnv = gymnasium.Env[Any, Any]
MakeEnv = Callable[[], TextEnv]
_drawn = threading.Event()  # an environment's reset drew from Python's global stream
# key of an environment's metadata: its tools are fast and determined by seed and actions
IN_PROCESS = "in_process_tools"


class EnvRequest(NamedTuple):
    """Request to an env: `reset` with seed and task id or, with a text, `step`."""

    task_id: str = ""
    seed: int = 0
    text: str | None = None


class EnvResponse(NamedTuple):
    """Response of an env: the tuple of `reset` or `step`, or the error."""

    slot: int
    result: tuple[Any, ...]
    error: BaseException | None
    seconds: float  # that the environment worked


class NoResponseError(RuntimeError):
    """Error of no response in time from an environment, or of a process that ended."""


class InvalidEpisodeError(RuntimeError):
    """Error of an invalid episode, as its environment reported by `info["invalid"]`."""


class EnvPool(ABC):
    """Interface of env pools: one per slot, one pending request each.

    `in_order`: responses come sorted by slot, once all pending requests are answered, so that the
    seed determines the rollout. Else they come as they arrive, and no slot waits for a slow one. It
    may turn false during a run.
    """

    in_order: bool = True

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of slots."""

    @abstractmethod
    def start(self) -> None:
        """Drop all pending requests; late responses to them are ignored."""

    @abstractmethod
    def send(self, slot: int, request: EnvRequest, within_s: float) -> None:
        """Send a request to a slot without a pending one.

        No response in `within_s` is a failure.
        """

    @abstractmethod
    def recv(self, *, wait: bool) -> list[EnvResponse]:
        """Receive (recv) responses, sorted by slot; with `wait` at least one, if one is pending."""

    @abstractmethod
    def replace(self, slot: int) -> None:
        """Replace a failed environment by a fresh one, if there is a maker."""

    @abstractmethod
    def close(self) -> None:
        """Close every environment."""

    @property
    def num_arrived(self) -> int:
        """Approximate number of responses that have arrived."""
        return 0


class InlineEnvPool(EnvPool):
    """Inline pool of envs, in the caller's thread."""

    def __init__(self, envs: list[TextEnv], make_env: MakeEnv | None = None) -> None:
        self._envs = envs
        self._make_env = make_env
        self._responses: list[EnvResponse] = []

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self._envs)

    def start(self) -> None:
        """Start anew: drop all responses."""
        self._responses = []

    def send(self, slot: int, request: EnvRequest, within_s: float) -> None:
        """Send a request: call the environment at once; no deadline can be enforced."""
        self._responses.append(call_env(slot, self._envs[slot], request))

    def recv(self, *, wait: bool) -> list[EnvResponse]:
        """Receive (recv) all responses."""
        found, self._responses = sorted(self._responses, key=lambda answer: answer.slot), []
        return found

    def replace(self, slot: int) -> None:
        """Replace a failed environment by a fresh one, if there is a maker."""
        if self._make_env is not None:
            close_quietly(self._envs[slot])
            self._envs[slot] = self._make_env()

    def close(self) -> None:
        """Close every environment."""
        for env in self._envs:
            env.close()


@time_calls("environment")
def call_env(slot: int, env: TextEnv, request: EnvRequest) -> EnvResponse:
    """Call an env's `reset` or `step`; an exception becomes part of the response."""
    started = time.perf_counter()
    try:
        result = env.step(request.text) if request.text is not None else _reset(env, request)
    except BaseException as error:  # a KeyboardInterrupt too must get back to the thread that asked
        return EnvResponse(slot, (), error, time.perf_counter() - started)
    return EnvResponse(slot, result, None, time.perf_counter() - started)


def _reset(env: TextEnv, request: EnvRequest) -> tuple[Any, ...]:
    """Reset an environment; info has its attribute `ground_truth`, where it has one.

    Warn of the first that draws from what all threads draw from, which no seed of ours can order.
    """
    before = None if _drawn.is_set() else random.getstate()
    observation, info = env.reset(seed=request.seed, options={"task_id": request.task_id})
    unwrapped = getattr(env, "unwrapped", env)
    if before is not None and random.getstate() != before and not _drawn.is_set():
        _drawn.set()
        logger.warning(
            "%s.reset draws from Python's global random stream, which environments share: two runs "
            "of one seed may differ. Draw from self.np_random, which reset seeds",
            type(unwrapped).__name__,
        )
    truth = getattr(unwrapped, "ground_truth", None)
    if truth is None or callable(truth):  # a method of that name is something else
        return observation, info
    return observation, {**info, "ground_truth": truth}


def have_in_process_tools(envs: Sequence[TextEnv]) -> bool:
    """Whether all environments have in-process tools, as they declare.

    Fast and determined by seed and actions.
    """
    return all((getattr(env, "metadata", None) or {}).get(IN_PROCESS, False) for env in envs)


def close_quietly(env: TextEnv) -> None:
    """Close an environment quietly: if that fails, only warn."""
    try:
        env.close()
    except Exception as error:
        logger.warning("closing a failed environment raised %s: %s", type(error).__name__, error)


Inbox = queue.SimpleQueue[tuple[int, EnvResponse]]  # (ticket of the request, response)
CLOSING_S = 5.0  # to wait for environments to close
PATIENCE_S = 0.25  # the longest that environments wait for a slow one before order is given up
# Patience is counted in ticks, not by the clock: a starved process has few of them, as have its
# threads.
_TICK_S = 0.01
_LONGEST_WAIT_S = 3600.0  # of one queue.get


class _PendingRequest(NamedTuple):
    """A request and when it counts as failed."""

    ticket: int
    until: float  # time.monotonic() at which it counts as failed
    within_s: float


class EnvThread:
    """Thread of one env, in which all its methods are called.

    Some libraries bind objects to the thread that made them. A daemon thread: one that hangs must
    not keep the program from ending.
    """

    def __init__(self, slot: int, env: TextEnv, inbox: Inbox) -> None:
        self._slot = slot
        self._env = env
        self._inbox = inbox
        self._requests: queue.SimpleQueue[tuple[int, EnvRequest] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True, name=f"environment {slot}")
        self._thread.start()

    def send(self, ticket: int, request: EnvRequest) -> None:
        """Send a request to the environment's queue."""
        self._requests.put((ticket, request))

    def request_close(self) -> None:
        """Request the close of the environment after its pending request; do not wait."""
        self._requests.put(None)

    def join(self, timeout_s: float) -> None:
        """Join: wait until the environment is closed."""
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while (item := self._requests.get()) is not None:
            ticket, request = item
            self._inbox.put((ticket, call_env(self._slot, self._env, request)))
        close_quietly(self._env)


class ThreadEnvPool(EnvPool):
    """Thread pool of envs, a thread for each.

    They come in slot order until the others have waited for a slow environment for `patience_s`;
    from then on they come as they arrive.
    """

    def __init__(self, make_env: MakeEnv, num_slots: int) -> None:
        self._make_env = make_env
        self._ticket = 0
        self._pending: dict[int, _PendingRequest] = {}
        self._inbox: Inbox = queue.SimpleQueue()
        envs = [make_env() for _ in range(num_slots)]
        self.patience_s = math.inf if have_in_process_tools(envs) else PATIENCE_S
        self._threads = [EnvThread(slot, env, self._inbox) for slot, env in enumerate(envs)]

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self._threads)

    @property
    def num_arrived(self) -> int:
        """Approximate number of responses that have arrived."""
        return self._inbox.qsize()

    def start(self) -> None:
        """Drop all pending requests; late responses to them are ignored."""
        self._pending.clear()

    def send(self, slot: int, request: EnvRequest, within_s: float) -> None:
        """Send a request to a slot."""
        self._ticket += 1
        self._pending[slot] = _PendingRequest(self._ticket, time.monotonic() + within_s, within_s)
        self._threads[slot].send(self._ticket, request)

    @time_calls("wait")
    def recv(self, *, wait: bool) -> list[EnvResponse]:
        """Receive (recv) responses and failures, sorted by slot."""
        found: list[EnvResponse] = []
        patience_s = self.patience_s
        while True:
            while not self._inbox.empty():
                self._take(found, 0.0)
            self._fail_overdue(found)
            if not self._pending or not (self.in_order or (wait and not found)):
                return sorted(found, key=lambda answer: answer.slot)
            left_s = min(out.until for out in self._pending.values()) - time.monotonic()
            piece_s = _TICK_S if self.in_order and patience_s < math.inf else _LONGEST_WAIT_S
            if not self._take(found, min(max(0.0, left_s), piece_s)) and self.in_order:
                patience_s -= piece_s
                if patience_s <= 0:
                    self._stop_waiting()

    def replace(self, slot: int) -> None:
        """Replace a failed environment by a new one; a hanging thread is abandoned."""
        self._threads[slot].request_close()
        self._threads[slot] = EnvThread(slot, self._make_env(), self._inbox)

    def close(self) -> None:
        """Close every environment, and wait up to CLOSING_S for all."""
        for thread in self._threads:
            thread.request_close()
        for thread in self._threads:
            thread.join(CLOSING_S / max(1, len(self._threads)))

    def _stop_waiting(self) -> None:
        """Stop waiting for slow environments: responses are no longer in slot order."""
        self.in_order = False
        logger.info(
            "environment %d keeps the others waiting: from now on they go on without the slow "
            "ones (wait_for_tools: always keeps their order, so that a seed repeats the run)",
            min(self._pending),
        )

    def _take(self, found: list[EnvResponse], timeout_s: float) -> bool:
        """Take one response from the inbox; return whether one came in time."""
        try:
            ticket, answer = self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            return False
        out = self._pending.get(answer.slot)
        if out is not None and out.ticket == ticket:
            del self._pending[answer.slot]
            found.append(answer)
        return True

    def _fail_overdue(self, found: list[EnvResponse]) -> None:
        """Fail requests past their deadline."""
        now = time.monotonic()
        for slot, out in [(slot, out) for slot, out in self._pending.items() if now >= out.until]:
            del self._pending[slot]
            late = NoResponseError(
                f"no answer in the {out.within_s:.3g} s that its episode had left of "
                "tool_deadline_s"
            )
            found.append(EnvResponse(slot, (), late, out.within_s))


def make_env_pool(config: TrainConfig, make_env: MakeEnv, share: int = 1) -> EnvPool:
    """Make the env pool of one of `share` rollout processes."""
    envs = ThreadEnvPool(make_env, num_parallel_episodes(config, share))
    envs.in_order = config.wait_for_tools != "never"
    if config.wait_for_tools == "always":
        envs.patience_s = math.inf
    return envs


def num_parallel_episodes(config: TrainConfig, share: int = 1) -> int:
    """Return the number of episodes that run in parallel.

    --n_rollout_threads, or as many as --max_cache_tokens holds at full length.
    """
    requested = -(-config.n_rollout_threads // share)
    if config.max_cache_tokens is None:
        return requested
    return min(requested, max(1, config.max_cache_tokens // config.max_episode_tokens))
