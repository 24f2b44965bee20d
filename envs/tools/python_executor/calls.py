"""CallInFlight: one running snippet, with its pipes, clock and limits.

One poll loop drives many.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from typing import NamedTuple

from fctncalling.envs.tools.python_executor.config import ExecutorConfig
from fctncalling.envs.tools.python_executor.link import Launch, open_pipes
from fctncalling.envs.tools.python_executor.protocol import CODE_SIZE, SETUP_FAILED
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
    """Call in flight: one snippet, from its launch to its result."""

    def __init__(
        self, code: bytes, limits: CallLimits, launch: Launch, *, queue_s: float = 0.0
    ) -> None:
        (code_in, code_out), (out, stdout), (err, stderr) = open_pipes(3)
        theirs = [code_in, stdout, stderr]
        self._prepare(CODE_SIZE.pack(len(code)) + code, limits, queue_s, (code_out, out, err))
        try:
            self._send_code()  # most snippets fit into the pipe: nothing to wait for later
            self.child = launch(theirs)
        except BaseException:
            self._close_pipes()
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _prepare(
        self, message: bytes, limits: CallLimits, queue_s: float, ours: tuple[int, int, int]
    ) -> None:
        """Begin the clock and the output.

        `ours` are our ends of the pipes for code, stdout, stderr.
        """
        self.limits = limits
        self.queue_s = queue_s
        self.submitted = time.perf_counter()
        self._unsent = memoryview(message)
        self._next_read = 0.0  # when its output is read next
        self._stopped: Status | None = None
        self._stopped_at = 0.0
        self.gave_up = False  # whether our own side failed to answer
        code_out, out, err = ours
        self._code_out = code_out
        self._out = out
        self._err = err
        for descriptor in ours:
            os.set_blocking(descriptor, False)
        self._outputs = {
            self._out: BoundedOutput(limits.max_output_length, keep_end=False),
            self._err: BoundedOutput(limits.max_output_length, keep_end=True),
        }
        self._streams = dict(self._outputs)  # the one that is left when a stream has ended

    def poll_events(self) -> Iterator[tuple[int, int]]:
        """Yield (descriptor, poll events) of everything that the call waits for."""
        if not self.child.has_ended:
            yield self.child.fileno(), select.POLLIN
        if not self._next_read:
            for descriptor in self._streams:
                yield descriptor, select.POLLIN
        if self._unsent:
            yield self._code_out, select.POLLOUT

    def handle_event(self, descriptor: int) -> None:
        """Handle a poll event on one descriptor."""
        if descriptor in self._streams:
            self._read(descriptor)
            self._next_read = time.perf_counter() + READ_PAUSE_S
        elif descriptor == self._code_out:
            self._send_code()
        else:
            self.child.read_message()
            if self._stopped and not self.child.has_ended:
                self.child.kill()  # it was stopped before it had told who it is

    @property
    def deadline(self) -> float:
        """The deadline at which the time limit is enforced, on time.perf_counter()."""
        ends = self._ends
        return min(ends, self._next_read) if self._next_read else ends

    @property
    def _ends(self) -> float:
        if self._stopped:
            return self._stopped_at + END_GRACE_S
        if self.child.started is None:
            return self.submitted + START_TIMEOUT_S
        return self.child.started + self.limits.timeout_s

    def enforce_time_limit(self, now: float) -> None:
        """Enforce the time limit: stop the call if it has reached it.

        Give it up where even the kernel does not report its end.
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

    def stop(self) -> None:
        """Stop the call by killing it, whatever it does."""
        self._stop("killed")

    @property
    def has_finished(self) -> bool:
        """Whether the call has finished: its process has ended.

        Its pipes are never waited for, someone else may hold them open.
        """
        return self.child.has_ended

    def result(self) -> ToolResult:
        """Return the result, after reading what is left in the pipes and closing everything."""
        self._read_the_rest()
        ended = time.perf_counter()
        child = self.child
        out, err = self._outputs[self._out], self._outputs[self._err]
        stderr = err.text()
        status, reason = self._status(stderr)
        result = ToolResult(
            status=status,
            stdout=out.text(),
            stderr=stderr,
            exit_code=None
            if child.wait_status is None
            else os.waitstatus_to_exitcode(child.wait_status),
            wall_s=ended - (child.started or ended),
            cpu_s=child.cpu_s,
            max_rss_mb=child.max_rss_kb / 1024,
            queue_s=self.queue_s,
            truncated=out.truncated or err.truncated,
            reason=reason,
        )
        self.close()
        return result

    def _read_the_rest(self) -> None:
        for descriptor in list(self._streams):
            while descriptor in self._streams and self._read(descriptor):
                pass

    def close(self) -> None:
        """Close the call: all descriptors, killing the child if it still runs."""
        self.child.close()
        self._close_pipes()

    def _status(self, stderr: str) -> tuple[Status, str]:
        child, limits = self.child, self.limits
        cpu_s = limits.cpu_s or limits.timeout_s
        if self._stopped == "timeout":
            return "timeout", f"Timed out after {limits.timeout_s:g} s"
        if self._stopped == "output_limit":
            return "output_limit", f"Stopped: it wrote more than {limits.raw_output_bytes} bytes"
        if child.wait_status is None:
            return "setup_error", f"The executor failed: {child.lost}"
        code = os.waitstatus_to_exitcode(child.wait_status)
        if not child.confined:
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
        """Read once; False where there is nothing now or never again."""
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
            self._streams.clear()  # enough: what it writes until the kill lands is of no interest
        return True

    def _send_code(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._code_out, self._unsent[:PIPE_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it died without reading; its ending is told elsewhere
            self._unsent = self._unsent[:0]
        self._sent()

    def _sent(self) -> None:
        os.close(self._code_out)
        self._code_out = -1

    def _close_pipes(self) -> None:
        for descriptor in (self._out, self._err, self._code_out):
            if descriptor >= 0:
                os.close(descriptor)
        self._out = -1
        self._err = -1
        self._code_out = -1


class CallNotStarted(Exception):
    """Call that was not started; its result is data like any other."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result.reason)
        self.result = result


def encode_or_deny_snippet(code: str, config: ExecutorConfig) -> bytes | ToolResult:
    """Encode a snippet's code as bytes, or deny it: return the result that says so."""
    if not config.enabled:
        why = "The tool python_executor is disabled by the tool configuration"
        return ToolResult("denied", reason=why)
    data = code.encode("utf-8", "surrogatepass")
    if len(data) > config.max_code_bytes:
        long = f"{len(data)} bytes long, the limit is {config.max_code_bytes}"
        return ToolResult("denied", reason=f"Not run: the code is {long}")
    return data


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
