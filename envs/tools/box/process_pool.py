"""ToolProcessPool: warm worker processes, bounded in number."""

from __future__ import annotations

import os
import threading

from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.tools.box.tool_process import ToolProcess


class ToolProcessPool:
    """The tool processes of one operating system process.

    At most so many, kept warm between calls.
    """

    def __init__(self, num_processes: int) -> None:
        self.owner = os.getpid()
        self.places = threading.BoundedSemaphore(num_processes)
        self.idle: list[ToolProcess] = []
        self._lock = threading.Lock()
        self._closed = False

    def acquire(self) -> ToolProcess | None:
        with self._lock:
            if self._closed:
                raise InfrastructureError("this ToolBox is closed")
            return self.idle.pop() if self.idle else None

    def release(self, process: ToolProcess) -> None:
        with self._lock:
            if not self._closed:
                self.idle.append(process)
                return
        process.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self.idle = self.idle, []
        for process in idle if self.owner == os.getpid() else ():
            process.close()
