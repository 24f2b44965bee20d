"""Session of snippets that share their names, in one confined child."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import replace

from fctncalling.envs.tools.python_executor.calls import (
    CallInFlight,
    CallLauncher,
    CallLimits,
    CallNotStarted,
    wait_any,
)
from fctncalling.envs.tools.python_executor.config import check_seed, check_timeout
from fctncalling.envs.tools.python_executor.link import ZygoteChild
from fctncalling.envs.tools.python_executor.result import ToolResult

LOST = "the names of this session are lost"


class PythonSession:
    """Session of Python snippets that share names, like the cells of a notebook.

    `PythonExecutor.session` makes one.

    `run` has the same confinement, limits and results as the executor's. Memory and CPU time are
    limited for the whole session, wall-clock time and output for each call. A call that is killed
    (by the clock, by its output, by itself) takes the names with it, its `reason` says so, and the
    next call begins anew. Between calls the child stands still. Calls from several threads take
    turns.
    """

    def __init__(self, launcher: CallLauncher, limits: CallLimits) -> None:
        self._launcher = launcher
        self._limits = limits
        self._lock = threading.Lock()
        self._live: ZygoteChild | None = None  # while one runs
        self._owner = os.getpid()  # the process whose child it is
        self._closed = False

    def run(
        self, code: str, *, timeout_s: float | None = None, seed: int | None = None
    ) -> ToolResult:
        """Run one snippet with the names of the earlier ones; return its result."""
        if timeout_s is not None:
            check_timeout(timeout_s, "run")
        check_seed(seed)
        limits = self._limits._replace(timeout_s=timeout_s or self._limits.timeout_s)
        submitted = time.perf_counter()
        with self._lock, self._launcher.places:
            if self._closed:
                raise ValueError("this PythonSession is closed")
            queue_s = time.perf_counter() - submitted
            try:
                data = self._launcher.encode(code)
                was_lost = self._drop_lost_child()
                child = self._live or self._launcher.launch(limits)
            except CallNotStarted as why:
                return why.result
            self._live, self._owner = child, os.getpid()
            call = CallInFlight(data, limits, child, is_last=False, seed=seed, queue_s=queue_s)
            try:
                wait_any({0: call})
                result = call.result()
            except BaseException:
                call.close()
                self._live = None
                raise
            if not call.keeps_child:
                self._live = None
        reasons = [LOST] * was_lost + [result.reason] + [LOST] * (not call.keeps_child)
        return replace(result, reason="; ".join(filter(None, reasons)))

    def _drop_lost_child(self) -> bool:
        """Drop a child that has ended, or belongs to the process before a fork; return whether."""
        if self._live is None:
            return False
        if self._owner != os.getpid():
            self._live = None
            return True
        if not self._live.check_ended():
            return False
        self._live.close()
        self._live = None
        return True

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the session: end its child."""
        with self._lock:
            self._closed = True
            if self._live is not None and self._owner == os.getpid():
                self._live.close()
            self._live = None

    def __del__(self) -> None:
        # A session that was never made whole, or the interpreter's own end.
        with contextlib.suppress(Exception):
            self.close()

    def __enter__(self) -> PythonSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
