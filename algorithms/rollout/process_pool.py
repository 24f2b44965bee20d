"""Environment pool on worker processes, with batched messages."""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import os
import pickle
import queue
import signal
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from gymnasium.vector.utils import CloudpickleWrapper

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.rollout.async_pool import (
    PATIENCE_S,
    AsyncEnvPool,
    EnvThread,
    Inbox,
    ThreadEnvPool,
)
from fctncalling.algorithms.rollout.env_pool import (
    EnvPool,
    EnvRequest,
    EnvResponse,
    MakeEnv,
    NoResponseError,
    have_in_process_tools,
)

logger = logging.getLogger(__name__)

REPLACE = -1  # ticket of a message that replaces the slot's environment
START_S = 300.0  # within which a process must have made its environments
_SPAWN: Any = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang


class ProcessEnvPool(AsyncEnvPool):
    """Environment pool on worker processes: slot s runs in process s % count, in its own thread.

    If a process ends, its slots' pending requests fail, and it is started again. A process with an
    environment past its deadline is killed: nothing else is sure to end it.
    """

    def __init__(self, make_env: MakeEnv, num_slots: int, num_processes: int) -> None:
        """Raise TypeError for a `make_env` that cannot be sent to another process.

        RuntimeError where it fails there.
        """
        super().__init__(num_slots)
        try:
            self._maker: bytes = pickle.dumps(CloudpickleWrapper(make_env))
        except Exception as error:
            raise TypeError(
                f"these environments cannot be made in another process: {error}"
            ) from error
        count = min(num_processes, num_slots)
        self._processes = [
            _Process(self._maker, range(num, num_slots, count), self._inbox) for num in range(count)
        ]
        in_process = [process.reported() for process in self._processes]
        self.patience_s = math.inf if all(in_process) else PATIENCE_S

    @property
    def process_ids(self) -> list[int]:
        """The ids of the processes."""
        return [process.id for process in self._processes]

    def replace(self, slot: int) -> None:
        """Replace a failed environment by a new one, and its process too if that ended."""
        number = slot % len(self._processes)
        if self._processes[number].is_alive:
            self._processes[number].post(REPLACE, slot, EnvRequest())
        else:
            slots = range(number, len(self), len(self._processes))
            self._processes[number] = _Process(self._maker, slots, self._inbox)

    def close(self) -> None:
        """End every process."""
        for process in self._processes:
            process.end()

    def _dispatch(self, slot: int, ticket: int, request: EnvRequest) -> None:
        self._processes[slot % len(self._processes)].post(ticket, slot, request)

    def _flush(self) -> None:
        for process in self._processes:
            process.send()

    def _abandon(self, slot: int) -> None:
        process = self._processes[slot % len(self._processes)]
        logger.warning(
            "environment %d hangs: its process %d is killed and started again", slot, process.id
        )
        process.kill()


class _Process:
    """Parent's handle of one worker process with environments."""

    def __init__(self, maker: bytes, slots: Sequence[int], inbox: Inbox) -> None:
        self._inbox = inbox
        self._slots = slots
        self._outbox: list[tuple[int, int, EnvRequest]] = []  # to be sent in one message
        self._out: dict[int, int] = {}  # slot -> ticket of what is out
        self._reports: queue.SimpleQueue[bool | str] = queue.SimpleQueue()
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_serve, args=(theirs, maker, list(slots)), daemon=True
        )
        self._process.start()
        theirs.close()
        threading.Thread(target=self._receive, daemon=True, name="environments' answers").start()

    @property
    def id(self) -> int:
        """The process's id."""
        return int(self._process.pid)

    @property
    def is_alive(self) -> bool:
        return bool(self._process.is_alive())

    def reported(self) -> bool:
        """Wait until the environments are made; return whether all have in-process tools.

        RuntimeError where making them fails.
        """
        try:
            report = self._reports.get(timeout=START_S)
        except queue.Empty:
            report = f"not made within {START_S:.0f} s"
        if isinstance(report, str):
            self.kill()
            raise RuntimeError(f"process {self.id} could not make its environments: {report}")
        return report

    def post(self, ticket: int, slot: int, request: EnvRequest) -> None:
        """Queue a request for the next message."""
        self._outbox.append((ticket, slot, request))

    def send(self) -> None:
        """Send the queued requests in one message; they fail if the process has ended."""
        messages, self._outbox = self._outbox, []
        self._out |= {slot: ticket for ticket, slot, _ in messages if ticket != REPLACE}
        try:
            if messages:
                self._pipe.send(messages)
        except OSError:
            self._fail()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.join()

    def end(self) -> None:
        """Let the process close its environments and end; kill it where it does not."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._process.join(5.0)
        self.kill()

    def _receive(self) -> None:
        """Forward the process's responses to the inbox until it ends (runs in a thread)."""
        try:
            self._reports.put(self._pipe.recv())
            while True:
                for packed in self._pipe.recv():
                    ticket, answer = pickle.loads(packed)
                    self._out.pop(answer.slot, None)
                    self._inbox.put((ticket, answer))
        except (EOFError, OSError):
            self._process.join()
            self._reports.put(f"it ended with exit code {self._process.exitcode}")
            self._fail()

    def _fail(self) -> None:
        """Fail all pending requests of an ended process."""
        self._process.join(1.0)
        ended = f"its process {self.id} ended with exit code {self._process.exitcode}"
        while self._out:
            with contextlib.suppress(KeyError):
                slot, ticket = self._out.popitem()
                self._inbox.put((ticket, EnvResponse(slot, (), NoResponseError(ended))))


def _serve(pipe: Connection, maker: bytes, slots: Sequence[int]) -> None:
    """Main of a worker process: make environments and serve them until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    inbox: Inbox = queue.SimpleQueue()
    try:
        make_env: MakeEnv = pickle.loads(maker)
        envs = {slot: make_env() for slot in slots}
    except Exception as error:
        return pipe.send(f"{type(error).__name__}: {error}")
    pipe.send(have_in_process_tools(list(envs.values())))
    threads = {slot: EnvThread(slot, env, inbox) for slot, env in envs.items()}
    threading.Thread(target=_listen, args=(pipe, threads, inbox, make_env), daemon=True).start()
    while True:
        answers = [inbox.get()]
        while not inbox.empty():
            answers.append(inbox.get())
        pipe.send([_packed(ticket, answer) for ticket, answer in answers])


def _listen(
    pipe: Connection, threads: dict[int, EnvThread], inbox: Inbox, make_env: MakeEnv
) -> None:
    """Pass requests to the environments' threads; end the process when the pipe is closed."""
    with contextlib.suppress(EOFError, OSError):
        while (messages := pipe.recv()) is not None:
            for ticket, slot, request in messages:
                if ticket == REPLACE:
                    threads[slot].leave()
                    threads[slot] = EnvThread(slot, make_env(), inbox)
                else:
                    threads[slot].send(ticket, request)
    for thread in threads.values():
        thread.leave()
    for thread in threads.values():
        thread.join(1.0)
    os._exit(0)


def _packed(ticket: int, answer: EnvResponse) -> bytes:
    """Return a pickled response.

    An error is sent as its text, since not every exception can be unpickled.
    """
    if answer.error is not None:
        answer = answer._replace(
            error=RuntimeError(f"{type(answer.error).__name__}: {answer.error}")
        )
    try:
        return pickle.dumps((ticket, answer))
    except Exception as error:
        unsendable = RuntimeError(f"its answer cannot be sent between processes: {error}")
        return pickle.dumps((ticket, EnvResponse(answer.slot, (), unsendable)))


def make_env_pool(config: TrainConfig, make_env: MakeEnv, share: int = 1) -> EnvPool:
    """Return the environment pool of one of `share` rollout processes.

    SettingError where the environments cannot be made in --env_processes processes.
    """
    count = num_parallel_episodes(config, share)
    envs: AsyncEnvPool
    if config.env_processes:
        try:
            envs = ProcessEnvPool(make_env, count, config.env_processes)
        except (TypeError, RuntimeError) as error:
            raise SettingError(
                f"--env_processes: got {config.env_processes}, but {error}; 0 keeps threads"
            ) from error
    else:
        envs = ThreadEnvPool(make_env, count)
    envs.in_order = config.wait_for_tools != "never"
    # A replayed log itself says which responses were late.
    if config.wait_for_tools == "always" or config.replay_arrivals is not None:
        envs.patience_s = math.inf
        envs.in_order = True
    return envs


def num_parallel_episodes(config: TrainConfig, share: int = 1) -> int:
    """Return how many episodes run at a time.

    --n_rollout_threads, or as many as --max_cache_tokens holds at full length.
    """
    requested = -(-config.n_rollout_threads // share)
    room = (
        math.inf
        if config.max_cache_tokens is None
        else config.max_cache_tokens // config.max_episode_tokens
    )
    return int(min(requested, max(1, room)))


def deadline_s(config: TrainConfig) -> float:
    """Return the seconds an environment may spend on one episode."""
    return math.inf if config.tool_deadline_s is None else config.tool_deadline_s
