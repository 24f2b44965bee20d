"""Link to the zygote, on the trainer's side: start it, request children, notice its death.

Every call has a status socket of its own, so threads share nothing but the request socket, on which
a request is one atomic message; and the death of the zygote is the end of file on every one of
them.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from fctncalling.envs.tools.python_executor.config import ExecutorConfig
from fctncalling.envs.tools.python_executor.protocol import (
    CONFINED,
    ENDED,
    ENDING,
    FAILED,
    REQUEST,
    STARTED,
)

ZYGOTE_DIED = "the zygote died"


class ZygoteChild:
    """Child of the zygote for one call or session: its status socket and our pipe ends.

    `pipes`: for code, standard output, standard error and the exit code of each call but the last.
    """

    def __init__(self, status: socket.socket, pipes: list[int]) -> None:
        self._status = status
        self.pipes = pipes
        self._pidfd = -1
        self.pid: int | None = None
        self.started: float | None = None
        self.confined = False
        self.wait_status: int | None = None
        self.cpu_s = 0.0
        self.max_rss_kb = 0
        self.lost = ""  # why its end will never be reported

    def fileno(self) -> int:
        """Return the descriptor of the status socket, readable when a message arrives."""
        return self._status.fileno()

    @property
    def has_ended(self) -> bool:
        """Whether the child has ended: no further message will come."""
        return self.wait_status is not None or bool(self.lost)

    def check_ended(self) -> bool:
        """Read pending messages and return whether the child has ended."""
        while not self.has_ended and is_readable(self.fileno()):
            self.read_message()
        return self.has_ended

    def cpu_clock_s(self) -> float:
        """Return the CPU seconds of the process so far, by the kernel's clock.

        0 if it has none.
        """
        if self.pid is None or not hasattr(time, "clock_gettime"):
            return 0.0
        with contextlib.suppress(OSError):
            # Linux encodes a process's CPU clock so: MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED).
            return time.clock_gettime((~self.pid << 3) | 2)
        return 0.0

    def read_message(self) -> None:
        """Read one message of the status socket."""
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
        """Kill the child."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal to the child; no other process can get it by mistake."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, number)
            elif self.pid is not None and not self.has_ended:
                os.kill(self.pid, number)

    def close(self) -> None:
        """Close the child's descriptors, killing it if it may still run."""
        if not self.has_ended:
            self.kill()
        self._status.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        while self.pipes:
            os.close(self.pipes.pop())


def is_readable(descriptor: int) -> bool:
    """Whether a descriptor can be read without waiting."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


BOOT_TIMEOUT_S = 120.0
DEATHS_A_MINUTE = 5
UNPRIVILEGED_USER = 65534  # "nobody" on every Linux
PACKAGE = "fctncalling.envs.tools.python_executor"

# As isolated as by -I, but -I ignores PYTHONHASHSEED too, and sets of texts would print in another
# order each time. Every variable that the interpreter reads is `clean_environment`'s.
INTERPRETER = (sys.executable, "-s", "-P", "-c")

# The packages above ours are given as empty shells: importing them would bring the project, and
# what it imports, into the memory that every snippet inherits.
BOOT = f"""
import json, os, sys, types
os.uname = lambda fields=json.loads(sys.argv[2])["uname"]: os.uname_result(fields)
name = ""
for part in {PACKAGE!r}.split("."):
    name = f"{{name}}.{{part}}" if name else part
    sys.modules[name] = shell = types.ModuleType(name)
    shell.__path__ = []
shell.__path__ = [sys.argv[3]]
from {PACKAGE}.zygote import main
main(int(sys.argv[1]), sys.argv[2])
"""


class SandboxUnavailable(RuntimeError):
    """Error of an executor that cannot run, or not as confined as required.

    The message says what is missing and what to do.
    """


def clean_environment() -> dict[str, str]:
    """Return the zygote's environment variables, none inherited.

    So it has no token, proxy or path of the trainer. LD_LIBRARY_PATH alone is kept.
    """
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "MALLOC_ARENA_MAX": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    if "LD_LIBRARY_PATH" in os.environ:  # some interpreters do not start without it
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return environment


def zygote_settings(config: ExecutorConfig, layers: tuple[str, ...]) -> dict[str, Any]:
    """Return the zygote's settings as JSON values."""
    return {
        "allowed_modules": list(config.allowed_modules),
        "restricted_functions": list(config.restricted_functions),
        "layers": list(layers),
        "threads": config.allows_threads,
        "user": UNPRIVILEGED_USER,
        "uname": uname_without_host(),
        "path": [
            str(Path(folder).resolve()) for folder in sys.path if folder and Path(folder).is_dir()
        ],
    }


def uname_without_host() -> list[str]:
    """Return the fields of `os.uname()` that snippets may read: all but the host name."""
    host = os.uname()
    return [host.sysname, "", host.release, host.version, host.machine]


class ZygoteLink:
    """Link to a zygote process, which is restarted when it dies, after growing pauses."""

    def __init__(self, config: ExecutorConfig, layers: tuple[str, ...]) -> None:
        self._settings = zygote_settings(config, layers)
        self._lock = threading.Lock()
        self._deaths: deque[float] = deque(maxlen=DEATHS_A_MINUTE)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = os.getpid()
        self.greeting: dict[str, Any] = {}

    @property
    def pid(self) -> int | None:
        """Process id of the zygote, None if none is running."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the zygote unless it runs; raises SandboxUnavailable."""
        with self._lock:
            # a fork of the trainer: the old zygote is not ours to use or to reap
            if self._owner != os.getpid():
                self._process = None
                self._control = None
                self._owner = os.getpid()
            if self._process is not None and self._process.poll() is None:
                return
            if self._process is not None:
                self._note_death()
            self._boot()

    def _note_death(self) -> None:
        now = time.monotonic()
        self._deaths.append(now)
        recent = sum(now - death < 60 for death in self._deaths)
        if recent >= DEATHS_A_MINUTE:
            raise SandboxUnavailable(
                f"the executor's zygote died {recent} times within a minute, last with status "
                f"{self._process and self._process.returncode}: something kills it (is memory "
                "short?)"
            )
        time.sleep(0.02 * 2 ** (recent - 1))

    def _boot(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = str(Path(__file__).resolve().parent)
        command = [*INTERPRETER, BOOT, str(theirs.fileno()), json.dumps(self._settings), folder]
        with theirs:
            self._process = subprocess.Popen(
                command,
                env=clean_environment(),
                pass_fds=[theirs.fileno()],
                cwd="/",
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        ours.settimeout(BOOT_TIMEOUT_S)
        try:
            greeting = json.loads(
                ours.recv(1 << 16) or b'{"failed": "the interpreter ended before it was ready"}'
            )
        except TimeoutError:
            greeting = {"failed": f"not ready within {BOOT_TIMEOUT_S:.0f} s"}
        if "failed" in greeting:
            ours.close()
            self._process.kill()
            self._process.wait()
            self._process = None
            raise SandboxUnavailable(f"the executor's zygote did not start: {greeting['failed']}")
        ours.settimeout(None)
        if self._control is not None:
            self._control.close()
        self._control = ours
        self.greeting = greeting

    def launch(self, memory_bytes: int, cpu_s: int, *, policy: bool) -> ZygoteChild:
        """Start one child, its pipes named in `protocol.py`; OSError where the zygote is gone."""
        status, child_status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours, theirs = list[int](), [child_status.detach()]
        try:
            for name in ("code", "stdout", "stderr", "done"):
                pair = os.pipe()
                ours.append(pair[name == "code"])
                theirs.insert(-1, pair[name != "code"])
                os.set_blocking(ours[-1], False)
            if self._control is None:
                raise ConnectionError("the executor is being closed")
            request = REQUEST.pack(memory_bytes, cpu_s, policy)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", theirs))]
            self._control.sendmsg([request], rights)
            return ZygoteChild(status, ours)
        except BaseException:
            status.close()
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def reap(self) -> None:
        """Reap a dead zygote before another one starts.

        Its sockets close a moment before its process can be seen to have ended, and in that moment
        a request would still be taken, by nobody.
        """
        process = self._process
        if process is not None and self._owner == os.getpid():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)  # in vain if another thread has started a new zygote

    def kill(self) -> None:
        """Kill a zygote that no longer answers; `start` starts another."""
        if self.pid is not None and self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """End the zygote and all its children.

        In a fork of the trainer, only close its copy of the socket.
        """
        with self._lock:
            if self._control is not None:
                if self._owner == os.getpid():
                    with contextlib.suppress(OSError):
                        # A fork of the trainer may hold a copy: do not wait for end of file.
                        self._control.send(b"")
                self._control.close()
                self._control = None
            if self._process is not None and self._owner == os.getpid():
                try:
                    self._process.wait(2)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            self._process = None
