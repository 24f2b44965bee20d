"""Child: the process of one call as its caller sees it; ZygoteChild and the pipes to it."""

from __future__ import annotations

import array
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Protocol

from fctncalling.envs.tools.python_executor.protocol import (
    CONFINED,
    ENDED,
    ENDING,
    FAILED,
    STARTED,
)

ZYGOTE_DIED = "the zygote died"


class Child(Protocol):
    """Protocol of a process that runs one snippet: the zygote's child and the fresh interpreter."""

    started: float | None
    confined: bool
    wait_status: int | None
    cpu_s: float
    max_rss_kb: int
    lost: str

    def fileno(self) -> int: ...
    @property
    def over(self) -> bool: ...
    def read_message(self) -> None: ...
    def kill(self) -> None: ...
    def signal(self, number: int) -> None: ...
    @property
    def pid(self) -> int | None: ...
    def close(self) -> None: ...


Launch = Callable[[list[int]], Child]


class ZygoteChild:
    """Child of the zygote, as reported on its status socket. Times are time.perf_counter()."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self._pidfd = -1
        self.pid: int | None = None
        self.started: float | None = None
        self.confined = False
        self.wait_status: int | None = None
        self.cpu_s = 0.0
        self.max_rss_kb = 0
        self.lost = ""  # why its end will never be told

    def fileno(self) -> int:
        """The descriptor that becomes readable when a message arrives."""
        return self._status.fileno()

    @property
    def over(self) -> bool:
        """Whether no further message will come."""
        return self.wait_status is not None or bool(self.lost)

    def read_message(self) -> None:
        """Read one message."""
        try:
            message, ancillary, _, _ = self._status.recvmsg(
                256, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
            )
        except OSError as error:
            message, ancillary, self.lost = b"", [], str(error)
        kind, body = message[:1], message[1:]
        if kind == STARTED:
            self.pid = int(body)
            self.started = time.perf_counter()
            if ancillary:  # none where this process has no descriptor left
                self._pidfd = array.array("i", ancillary[0][2][:4])[0]
        elif kind == CONFINED:
            self.confined = True
        elif kind == ENDED:
            wait_status, cpu_s, max_rss_kb = ENDING.unpack(body)
            self.wait_status = wait_status
            self.cpu_s = cpu_s
            self.max_rss_kb = max_rss_kb
        else:
            self.lost = body.decode() if kind == FAILED else ZYGOTE_DIED

    def kill(self) -> None:
        """Kill it."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal, by a descriptor that cannot come to mean another process."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, number)
            elif self.pid is not None and not self.over:
                os.kill(self.pid, number)

    def close(self) -> None:
        """Close the descriptors, killing the child if it may still run."""
        if not self.over:
            self.kill()
        self._status.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def pipes(count: int) -> list[tuple[int, int]]:
    """Return (reading end, writing end) of new pipes; on failure none is left open."""
    made: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            made.append(os.pipe())
    except OSError:
        for pair in made:
            os.close(pair[0])
            os.close(pair[1])
        raise
    return made
