"""Environment pool interface: asynchronous reset and step."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium

from fctncalling.data.timing import timed

logger = logging.getLogger(__name__)

TextEnv = gymnasium.Env[Any, Any]
MakeEnv = Callable[[], TextEnv]
# in an environment's metadata: its answers are quick, and follow from seed and actions
IN_PROCESS = "in_process_tools"


class EnvRequest(NamedTuple):
    """What an environment is asked: to begin an episode or, where a text is given, to go on with
    it.
    """

    task_id: str = ""
    seed: int = 0
    text: str | None = None


class EnvResponse(NamedTuple):
    """What came of it: `reset`'s or `step`'s tuple, or why there is none."""

    slot: int
    result: tuple[Any, ...] = ()
    error: BaseException | None = None
    seconds: float = 0.0  # that the environment worked


class NoResponseError(RuntimeError):
    """An environment did not answer in the time its episode has, or its process ended."""


class InvalidEpisodeError(RuntimeError):
    """An environment says that its infrastructure failed, in `info["invalid"]`."""


class EnvPool(ABC):
    """A number of environments, each in a slot, each asked one thing at a time.

    `in_order`: answers come in the order of the slots, and only when all that were asked have
    answered; what is played then follows from the seed. Else they come when they come, and nobody
    waits for the slow. It may turn false.
    """

    in_order: bool = True

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of slots."""

    @abstractmethod
    def start(self) -> None:
        """Forget all that was asked: answers that come later are dropped."""

    @abstractmethod
    def send(self, slot: int, request: EnvRequest, within_s: float) -> None:
        """Hand a question to a slot, whose last one was answered; no answer within so many seconds
        is a failure.
        """

    @abstractmethod
    def recv(self, *, wait: bool) -> list[EnvResponse]:
        """Return what has been answered, by slot; at least one answer where `wait` and something
        was asked.
        """

    @abstractmethod
    def replace(self, slot: int) -> None:
        """Put a fresh environment in the place of one that failed,
        where there is a maker of them.
        """

    @abstractmethod
    def close(self) -> None:
        """Close every environment."""

    @property
    def num_arrived(self) -> int:
        """How many answers wait to be fetched, about."""
        return 0


class InlineEnvPool(EnvPool):
    """Asked one after another in the thread that asks. A caller's list of them: replacements are
    put into it.
    """

    def __init__(self, envs: list[TextEnv], make_env: MakeEnv | None = None) -> None:
        self._envs = envs
        self._make_env = make_env
        self._responses: list[EnvResponse] = []

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self._envs)

    def start(self) -> None:
        """Forget all that was asked."""
        self._responses = []

    def send(self, slot: int, request: EnvRequest, within_s: float) -> None:
        """Ask at once; nothing can end an answer that takes too long."""
        self._responses.append(call_env(slot, self._envs[slot], request))

    def recv(self, *, wait: bool) -> list[EnvResponse]:
        """Return all answers."""
        found, self._responses = sorted(self._responses, key=lambda answer: answer.slot), []
        return found

    def replace(self, slot: int) -> None:
        """Put a fresh environment in the place of one that failed,
        where there is a maker of them.
        """
        if self._make_env is not None:
            close_quietly(self._envs[slot])
            self._envs[slot] = self._make_env()

    def close(self) -> None:
        """Close every environment."""
        for env in self._envs:
            env.close()


@timed("environment")
def call_env(slot: int, env: TextEnv, request: EnvRequest) -> EnvResponse:
    """Return an environment's answer; what it raises is part of it."""
    started = time.perf_counter()
    try:
        if request.text is None:
            result: tuple[Any, ...] = env.reset(
                seed=request.seed, options={"task_id": request.task_id}
            )
        else:
            result = env.step(request.text)
    except BaseException as error:  # a KeyboardInterrupt too must get back to the thread that asked
        return EnvResponse(slot, (), error, time.perf_counter() - started)
    return EnvResponse(slot, result, None, time.perf_counter() - started)


def have_in_process_tools(envs: Sequence[TextEnv]) -> bool:
    """Return whether all of these say that their tools are quick and follow from seed and
    actions.
    """
    return all((getattr(env, "metadata", None) or {}).get(IN_PROCESS, False) for env in envs)


def close_quietly(env: TextEnv) -> None:
    """Close an environment, and only warn where that fails."""
    try:
        env.close()
    except Exception as error:
        logger.warning("closing a failed environment raised %s: %s", type(error).__name__, error)
