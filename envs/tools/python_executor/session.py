"""PythonSession: snippets that share their names, in one confined child."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from fctncalling.envs.tools.python_executor.calls import (
    CallInFlight,
    CallLimits,
    encode_or_deny_snippet,
    wait_any,
)
from fctncalling.envs.tools.python_executor.config import ExecutorConfig, check_seed, check_timeout
from fctncalling.envs.tools.python_executor.link import Launch, ZygoteChild, open_pipes
from fctncalling.envs.tools.python_executor.protocol import SESSION_CALL
from fctncalling.envs.tools.python_executor.result import ToolResult, ends_in_memory_error

LOST = "the names of this session are lost"


class SessionChild(NamedTuple):
    """Session's child, a process, with our ends of its pipes."""

    child: ZygoteChild
    code_out: int
    out: int
    err: int
    done: int  # one byte, the exit code, after each call

    @classmethod
    def start(cls, launch: Launch) -> SessionChild:
        """Start a child that runs one snippet after the other."""
        (code_in, code_out), (out, stdout), (err, stderr), (done, done_in) = open_pipes(4)
        ours, theirs = (code_out, out, err, done), [code_in, stdout, stderr, done_in]
        try:
            for descriptor in ours:
                os.set_blocking(descriptor, False)
            return cls(launch(theirs), *ours)
        except BaseException:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def check_ended(self) -> bool:
        """Check whether the child has ended since the last call."""
        while not self.child.has_ended and _readable(self.child.fileno()):
            self.child.read_message()
        return self.child.has_ended

    def cpu_s(self) -> float:
        """Return the CPU seconds of the process so far, by the kernel's clock of it.

        0 where there is none.
        """
        pid = self.child.pid
        if pid is None or not hasattr(time, "clock_gettime"):
            return 0.0
        with contextlib.suppress(OSError):
            return time.clock_gettime((~pid << 3) | 2)
        return 0.0

    def close(self) -> None:
        """Close the session's child: kill it and close all descriptors."""
        self.child.close()
        for descriptor in self[1:]:
            os.close(descriptor)


class SessionCall(CallInFlight):
    """Call of one snippet of a session; the child lives on."""

    def __init__(
        self, code: bytes, limits: CallLimits, live: SessionChild, seed: int | None
    ) -> None:
        self.live = live
        self.child = live.child
        while _readable(live.done) and os.read(live.done, 1 << 16):
            pass  # what an earlier snippet wrote there itself
        head = SESSION_CALL.pack((seed or 0) % 2**64, seed is not None, len(code))
        self._prepare(head + code, limits, 0.0, (live.code_out, live.out, live.err))
        self._cpu_before = live.cpu_s()
        self._exit_code: int | None = None
        self._watches_done = True
        self.child.signal(signal.SIGCONT)
        self._send_code()

    def poll_events(self) -> Iterator[tuple[int, int]]:
        """Yield (descriptor, poll events), that of the call's end included."""
        yield from super().poll_events()
        if self._watches_done:
            yield self.live.done, select.POLLIN

    def handle_event(self, descriptor: int) -> None:
        """Handle a poll event on one descriptor."""
        if descriptor != self.live.done:
            super().handle_event(descriptor)
            return
        exit_code = os.read(descriptor, 1)
        self._watches_done = False
        if exit_code:
            self._exit_code = exit_code[0]

    @property
    def _begun(self) -> float | None:
        started = self.child.started
        return None if started is None else max(started, self.submitted)

    @property
    def has_finished(self) -> bool:
        """Whether the call has finished, or the whole process has ended."""
        return self.child.has_ended or (self._exit_code is not None and self._stopped is None)

    def result(self) -> ToolResult:
        """Return the call's result; the child is stopped until the next one."""
        if self._exit_code is None or self._stopped is not None:
            ended = super().result()
            return replace(
                ended,
                wall_s=time.perf_counter() - (self._begun or time.perf_counter()),
                cpu_s=max(0.0, ended.cpu_s - self._cpu_before),
                reason=f"{ended.reason}; {LOST}" if ended.reason else LOST,
            )
        self.child.signal(signal.SIGSTOP)  # no timer and no thread of it works between calls
        self._read_the_rest()
        out, err = self._outputs[self._out], self._outputs[self._err]
        memory = self._exit_code and ends_in_memory_error(err.text())
        return ToolResult(
            status="error" if self._exit_code else "ok",
            stdout=out.text(),
            stderr=err.text(),
            exit_code=self._exit_code,
            wall_s=time.perf_counter() - (self._begun or self.submitted),
            cpu_s=max(0.0, self.live.cpu_s() - self._cpu_before),
            truncated=out.truncated or err.truncated,
            reason="It ran out of memory" if memory else "",
        )

    def close(self) -> None:
        """Close the call: all descriptors, killing the child."""
        self.live.close()

    @property
    def _ends(self) -> float:
        start = self._begun
        if self._stopped or start is None:
            return super()._ends
        return start + self.limits.timeout_s

    def _sent(self) -> None:
        """Keep the pipe: more snippets follow."""


class SessionHost(Protocol):
    """Interface of a session's host, its PythonExecutor."""

    @property
    def places(self) -> AbstractContextManager[Any]:
        """Places for running calls, of which one is held during a call."""
        ...

    @property
    def config(self) -> ExecutorConfig:
        """Configuration of the executor."""
        ...

    def start_session(self, limits: CallLimits) -> SessionChild | ToolResult:
        """Start a session's child, or return the result of a call that cannot have one."""
        ...


class PythonSession:
    """Session of Python snippets that share their names, as the cells of a notebook do.

    `PythonExecutor.session` makes one.

    `run` has the same confinement, limits and results as the executor's. Memory and CPU time are
    limited for the whole session, wall-clock time and output for each call. A call that is killed
    (by the clock, by its output, by itself) takes the names with it, its `reason` says so, and the
    next call begins anew. Between calls the child stands still. Calls from several threads take
    turns.
    """

    def __init__(self, executor: SessionHost, limits: CallLimits) -> None:
        self._executor = executor
        self._limits = limits
        self._lock = threading.Lock()
        self._live: Any = None  # a SessionChild while one runs
        self._owner = os.getpid()  # the process whose child it is
        self._closed = False

    def run(
        self, code: str, *, timeout_s: float | None = None, seed: int | None = None
    ) -> ToolResult:
        """Run one snippet with the names of those before, and return its result."""
        if timeout_s is not None:
            check_timeout(timeout_s, "run")
        check_seed(seed)
        limits = self._limits._replace(timeout_s=timeout_s or self._limits.timeout_s)
        submitted = time.perf_counter()
        with self._lock, self._executor.places:
            if self._closed:
                raise ValueError("this PythonSession is closed")
            queue_s = time.perf_counter() - submitted
            data = encode_or_deny_snippet(code, self._executor.config)
            if isinstance(data, ToolResult):
                return data
            was_lost = self._drop_lost_child()
            if self._live is None:
                launched: Any = self._executor.start_session(limits)
                if isinstance(launched, ToolResult):
                    return launched
                self._live = launched
                self._owner = os.getpid()
            result = self._result(SessionCall(data, limits, self._live, seed))
        reason = "; ".join(filter(None, (LOST if was_lost else "", result.reason)))
        return replace(result, queue_s=queue_s, reason=reason)

    def _result(self, call: SessionCall) -> ToolResult:
        try:
            wait_any({0: call})
            ended = call.child.has_ended or call.gave_up
            result = call.result()
        except BaseException:
            call.close()
            self._live = None
            raise
        if ended:  # `result` has given everything back
            self._live = None
        return result

    def _drop_lost_child(self) -> bool:
        """Whether a child was lost: it has ended, or is the child of the process before a fork."""
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
        """Make the session usable after a fork: replace the lock."""
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


def _readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
