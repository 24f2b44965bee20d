"""Environment pool interface: asynchronous reset and step."""

from __future__ import annotations

import logging
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium

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
    result: tuple[Any, ...] = ()
    error: BaseException | None = None
    seconds: float = 0.0  # that the environment worked


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
        """Start anew: drop all pending requests, whose late responses are ignored."""

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
    """Reset an environment.

    Warn of the first that draws from what all threads draw from, which no seed of ours can order.
    """
    if _drawn.is_set():
        return env.reset(seed=request.seed, options={"task_id": request.task_id})
    before = random.getstate()
    result = env.reset(seed=request.seed, options={"task_id": request.task_id})
    if random.getstate() != before and not _drawn.is_set():
        _drawn.set()
        logger.warning(
            "%s.reset draws from Python's global random stream, which environments share: two runs "
            "of one seed may differ. Draw from self.np_random, which reset seeds",
            type(getattr(env, "unwrapped", env)).__name__,
        )
    return result


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
