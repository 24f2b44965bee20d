"""Environment pool on threads, one per environment."""

from __future__ import annotations

import math
import queue
import threading

from fctncalling.algorithms.rollout.async_pool import PATIENCE_S, AsyncEnvPool, Inbox
from fctncalling.algorithms.rollout.env_pool import (
    EnvRequest,
    MakeEnv,
    TextEnv,
    call_env,
    close_quietly,
    have_in_process_tools,
)

CLOSING_S = 5.0  # to wait for environments to close


class EnvThread:
    """One environment with a thread of its own, in which all its methods are called.

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
        """Queue a request."""
        self._requests.put((ticket, request))

    def leave(self) -> None:
        """Close the environment after the pending request, without waiting."""
        self._requests.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait until the environment is closed."""
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while (item := self._requests.get()) is not None:
            ticket, request = item
            self._inbox.put((ticket, call_env(self._slot, self._env, request)))
        close_quietly(self._env)


class ThreadEnvPool(AsyncEnvPool):
    """Environment pool with one thread per environment."""

    def __init__(self, make_env: MakeEnv, num_slots: int) -> None:
        super().__init__(num_slots)
        self._make_env = make_env
        envs = [make_env() for _ in range(num_slots)]
        self.patience_s = math.inf if have_in_process_tools(envs) else PATIENCE_S
        self._threads = [EnvThread(slot, env, self._inbox) for slot, env in enumerate(envs)]

    def replace(self, slot: int) -> None:
        """Replace a failed environment by a new one; a hanging thread is abandoned."""
        self._threads[slot].leave()
        self._threads[slot] = EnvThread(slot, self._make_env(), self._inbox)

    def close(self) -> None:
        """Close every environment, and wait up to CLOSING_S for all."""
        for thread in self._threads:
            thread.leave()
        for thread in self._threads:
            thread.join(CLOSING_S / max(1, len(self._threads)))

    def _dispatch(self, slot: int, ticket: int, request: EnvRequest) -> None:
        self._threads[slot].send(ticket, request)
