"""Call in flight: one running snippet with its pipes, clock and limits; and its launcher.

One poll loop drives many calls.
"""

from __future__ import annotations

import errno
import math
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from fctncalling.envs.tools.python_executor.config import ExecutorConfig
from fctncalling.envs.tools.python_executor.link import (
    ZYGOTE_DIED,
    ZygoteChild,
    ZygoteLink,
    is_readable,
)
from fctncalling.envs.tools.python_executor.protocol import CALL, SETUP_FAILED
from fctncalling.envs.tools.python_executor.result import (
    BoundedOutput,
    Status,
    ToolResult,
    ends_in_memory_error,
    signal_name,
)

# a zygote forks in milliseconds; one that takes this long is stopped or gone
START_TIMEOUT_S = 20.0
# from the kill to the kernel's word of the end: a large memory takes a while to be given back
END_GRACE_S = 10.0
PIPE_BYTES = 1 << 16  # what a Linux pipe takes at once
# between two looks at a call's output: one that writes byte by byte costs us no more than another
READ_PAUSE_S = 0.002


class CallLimits(NamedTuple):
    """Limits of one call: time, CPU, memory, output."""

    timeout_s: float
    max_output_length: int
    raw_output_bytes: int
    memory_kb: int
    cpu_s: float = 0.0  # of the whole process, where that runs more than this call; 0: timeout_s


class CallInFlight:
    """Running snippet, from the start in its child to its result.

    The last call of a child ends with it; a session's child survives the call.
    """

    def __init__(
        self,
        code: bytes,
        limits: CallLimits,
        child: ZygoteChild,
        *,
        is_last: bool = True,
        seed: int | None = None,
        queue_s: float = 0.0,
    ) -> None:
        self.limits = limits
        self.child = child
        self.queue_s = queue_s
        self.submitted = time.perf_counter()
        self._code_out, self._out, self._err, self._done = child.pipes
        self._exit_code: int | None = None  # reported by a child whose last call this is not
        while not is_last and is_readable(self._done) and os.read(self._done, PIPE_BYTES):
            pass  # bytes that an earlier snippet wrote there
        self._watched = [] if is_last else [self._done]
        self._next_read = 0.0  # when its output is read next
        self._stopped: Status | None = None
        self._stopped_at = 0.0
        self.gave_up = False  # whether our own side failed to answer
        self._outputs = {
            self._out: BoundedOutput(limits.max_output_length, keep_end=False),
            self._err: BoundedOutput(limits.max_output_length, keep_end=True),
        }
        self._streams = dict(self._outputs)  # the one that is left when a stream has ended
        self._cpu_before = child.cpu_clock_s()
        child.signal(signal.SIGCONT)
        head = CALL.pack((seed or 0) % 2**64, seed is not None, is_last, len(code))
        self._unsent = memoryview(head + code)
        self._send_code()  # most snippets fit into the pipe: nothing to wait for later

    def poll_events(self) -> Iterator[tuple[int, int]]:
        """Yield (descriptor, poll events) of everything the call waits for."""
        if not self.child.has_ended:
            yield self.child.fileno(), select.POLLIN
        if not self._next_read:
            for descriptor in self._streams:
                yield descriptor, select.POLLIN
        if self._unsent:
            yield self._code_out, select.POLLOUT
        for descriptor in self._watched:
            yield descriptor, select.POLLIN

    def handle_event(self, descriptor: int) -> None:
        """Handle a poll event on one descriptor."""
        if descriptor in self._streams:
            self._read(descriptor)
            self._next_read = time.perf_counter() + READ_PAUSE_S
        elif descriptor == self._code_out:
            self._send_code()
        elif descriptor == self._done:
            self._watched = []
            if exit_code := os.read(descriptor, 1):
                self._exit_code = exit_code[0]
        else:
            self.child.read_message()
            if self._stopped and not self.child.has_ended:
                self.child.kill()  # it was stopped before its pid was known

    @property
    def deadline(self) -> float:
        """Time of the next action on the call, on time.perf_counter()."""
        ends = self._ends
        return min(ends, self._next_read) if self._next_read else ends

    @property
    def _begun(self) -> float | None:
        started = self.child.started
        return None if started is None else max(started, self.submitted)

    @property
    def _ends(self) -> float:
        if self._stopped:
            return self._stopped_at + END_GRACE_S
        begun = self._begun
        if begun is None:
            return self.submitted + START_TIMEOUT_S
        return begun + self.limits.timeout_s

    def enforce_time_limit(self, now: float) -> None:
        """Stop the call if it has reached its time limit.

        Give it up if even the kernel does not report its end.
        """
        if now >= self._next_read:
            self._next_read = 0.0
        if now < self._ends or self.child.has_ended:
            return
        if self._stopped or self.child.started is None:
            self.child.lost = "the zygote does not answer"
            self.gave_up = True
        else:
            self._stop("timeout")

    @property
    def keeps_child(self) -> bool:
        """Whether the call has ended and left a session's child for the next call."""
        return self._exit_code is not None and self._stopped is None

    @property
    def has_finished(self) -> bool:
        """Whether its process has ended, or survives in a session.

        Its pipes are never waited for: another process may hold them open.
        """
        return self.child.has_ended or self.keeps_child

    def result(self) -> ToolResult:
        """Drain the pipes and return the result.

        A session's child is stopped until the next call; any other is closed.
        """
        child = self.child
        if self.keeps_child:
            child.signal(signal.SIGSTOP)  # no timer and no thread of it works between calls
        self._read_the_rest()
        ended = time.perf_counter()
        out, err = self._outputs[self._out], self._outputs[self._err]
        stderr = err.text()
        exit_code = self._exit_code if self.keeps_child else None
        if not self.keeps_child and child.wait_status is not None:
            exit_code = os.waitstatus_to_exitcode(child.wait_status)
        status, reason = self._status(exit_code, stderr)
        cpu_s = child.cpu_clock_s() if self.keeps_child else child.cpu_s
        result = ToolResult(
            status=status,
            stdout=out.text(),
            stderr=stderr,
            exit_code=exit_code,
            wall_s=ended - (self._begun or (self.submitted if self.keeps_child else ended)),
            cpu_s=max(0.0, cpu_s - self._cpu_before),
            max_rss_mb=child.max_rss_kb / 1024,
            queue_s=self.queue_s,
            truncated=out.truncated or err.truncated,
            reason=reason,
        )
        if not self.keeps_child:
            self.close()
        return result

    def _read_the_rest(self) -> None:
        for descriptor in list(self._streams):
            while descriptor in self._streams and self._read(descriptor):
                pass

    def close(self) -> None:
        """Close all descriptors and kill the child if it still runs."""
        self.child.close()

    def _status(self, code: int | None, stderr: str) -> tuple[Status, str]:
        child, limits = self.child, self.limits
        cpu_s = limits.cpu_s or limits.timeout_s
        if self._stopped == "timeout":
            return "timeout", f"Timed out after {limits.timeout_s:g} s"
        if self._stopped == "output_limit":
            return "output_limit", f"Stopped: it wrote more than {limits.raw_output_bytes} bytes"
        if code is None:
            return "setup_error", f"The executor failed: {child.lost}"
        if not (child.confined or self.keeps_child):
            detail = (
                stderr.strip()
                if code == SETUP_FAILED
                else f"ended with {code} before it was confined"
            )
            return "setup_error", f"The executor failed: {detail}"
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and child.cpu_s >= cpu_s):
            return "timeout", f"Timed out after {cpu_s:g} s of CPU time"
        if code == -signal.SIGKILL and child.max_rss_kb >= limits.memory_kb // 2:
            return "memory", "Killed by the kernel: the machine ran out of memory"
        if code < 0:
            return "killed", f"Killed by {signal_name(-code)}"
        if code and ends_in_memory_error(stderr):
            return "error", "It ran out of memory"
        return ("error", "") if code else ("ok", "")

    def _stop(self, why: Status) -> None:
        if self._stopped is None:
            self._stopped = why
            self._stopped_at = time.perf_counter()
        self.child.kill()

    def _read(self, descriptor: int) -> bool:
        """Read once; return False if there is no data now or ever again."""
        try:
            data = os.read(descriptor, PIPE_BYTES)
        except BlockingIOError:
            return False
        if not data:
            del self._streams[descriptor]
            return False
        self._outputs[descriptor].add(data)
        if (
            sum(output.total_bytes for output in self._outputs.values())
            > self.limits.raw_output_bytes
        ):
            self._stop("output_limit")
            self._streams.clear()  # ignore what it writes until the kill arrives
        return True

    def _send_code(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._code_out, self._unsent[:PIPE_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # the child died without reading; the zygote reports its end
            self._unsent = self._unsent[:0]


class CallNotStarted(Exception):
    """Signal that a call was not started; its result is data like any other."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result.reason)
        self.result = result


class CallLauncher:
    """Launcher of calls and sessions in children of a zygote; limits the running calls."""

    def __init__(self, config: ExecutorConfig, link: ZygoteLink | None) -> None:
        self._config = config
        self._link = link
        self.places = threading.BoundedSemaphore(config.max_running)
        self.closed = False  # whether further calls raise

    def limits(self, timeout_s: float) -> CallLimits:
        """Return the configured limits of a call, with this time limit."""
        config = self._config
        return CallLimits(
            timeout_s, config.max_output_length, config.raw_output_bytes, config.memory_mb << 10
        )

    def encode(self, code: str) -> bytes:
        """Encode a snippet as bytes; raises CallNotStarted, with the result, if it is denied."""
        if not self._config.enabled:
            why = "The tool python_executor is disabled by the tool configuration"
            raise CallNotStarted(ToolResult("denied", reason=why))
        data = code.encode("utf-8", "surrogatepass")
        if len(data) > self._config.max_code_bytes:
            long = f"{len(data)} bytes long, the limit is {self._config.max_code_bytes}"
            raise CallNotStarted(ToolResult("denied", reason=f"Not run: the code is {long}"))
        return data

    def launch(self, limits: CallLimits, *, policy: bool = True) -> ZygoteChild:
        """Start a child with limits of memory and CPU; raises CallNotStarted if it fails."""
        link = self._link
        assert link is not None
        seconds = math.ceil(limits.cpu_s or limits.timeout_s + 1)
        failure: OSError | None = None
        for _ in range(2):  # the zygote may have died between two calls: another is started, once
            if self.closed:
                raise ValueError("this PythonExecutor is closed")
            link.start()
            try:
                return link.launch(limits.memory_kb << 10, seconds, policy=policy)
            except OSError as error:
                failure = error
                # Ours to bear, not the zygote's doing.
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    break
                link.kill()
        raise CallNotStarted(ToolResult("setup_error", reason=f"The executor failed: {failure}"))

    def repair_zygote(self, call: CallInFlight) -> None:
        """Kill or reap a zygote that failed a call, so that another one is started."""
        if self._link is not None and call.gave_up:
            self._link.kill()
        elif self._link is not None and call.child.lost == ZYGOTE_DIED:
            self._link.reap()

    def after_fork(self) -> None:
        """Reset what the process inherited by a fork: the parent's calls and locks."""
        self.places = threading.BoundedSemaphore(self._config.max_running)
        if self._link is not None:
            self._link.after_fork()


def wait_any(calls: dict[int, CallInFlight]) -> list[int]:
    """Wait until any call has finished; return the keys of all those that have."""
    while True:
        owners: dict[int, CallInFlight] = {}
        poll = select.poll()
        for call in calls.values():
            for descriptor, events in call.poll_events():
                owners[descriptor] = call
                poll.register(descriptor, events)
        wait_s = min(call.deadline for call in calls.values()) - time.perf_counter()
        for descriptor, _ in poll.poll(max(0, wait_s * 1000 + 1)):
            owners[descriptor].handle_event(descriptor)
        now = time.perf_counter()
        for call in calls.values():
            call.enforce_time_limit(now)
        finished = [key for key, call in calls.items() if call.has_finished]
        if finished:
            return finished
