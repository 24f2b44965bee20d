"""Fallback backend: a fresh, isolated interpreter per call.

Slower by its start, and as confined as the system can.

On macOS there is neither Landlock nor seccomp; Seatbelt (`sandbox-exec`) stands in where it is
installed. That path has not been run on such a machine: the self-test at start-up decides what
holds, as everywhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from fctncalling.envs.tools.python_executor.config import ExecutorConfig
from fctncalling.envs.tools.python_executor.link import (
    BOOT,
    BOOT_TIMEOUT_S,
    INTERPRETER,
    SandboxUnavailable,
    clean_environment,
    zygote_settings,
)
from fctncalling.envs.tools.python_executor.protocol import (
    CONFINED,
    ENDED,
    ENDING,
)

BOOT_ONE_SHOT = BOOT.replace(".zygote import main", ".one_shot import main")
SEATBELT = "/usr/bin/sandbox-exec"
SEATBELT_PROFILE = (
    "(version 1)(allow default)(deny network*)(deny process-fork)(deny file-write*)"
    "(deny signal (target others))"
)


class FreshChild:
    """One interpreter and the thread that starts it and waits for its end.

    Times are time.perf_counter().
    """

    def __init__(self, command: list[str], descriptors: list[int], news: int, news_in: int) -> None:
        self._news = news
        self._news_in = news_in
        self._process: subprocess.Popen[bytes] | None = None
        self.started: float | None = None
        self.confined = False
        self.wait_status: int | None = None
        self.cpu_s = 0.0
        self.max_rss_kb = 0
        self.lost = ""
        # Linux kills the interpreter with the thread that started it: that one has to live as long.
        self._ready: Future[subprocess.Popen[bytes]] = Future()
        self._waiter = threading.Thread(
            target=self._start_and_wait, args=(command, descriptors), daemon=True
        )
        self._waiter.start()
        try:
            self._process = self._ready.result()
        except BaseException:
            self._waiter.join()
            os.close(news)
            os.close(news_in)
            raise

    @property
    def pid(self) -> int | None:
        """The process id, None once it has ended."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def _start_and_wait(self, command: list[str], descriptors: list[int]) -> None:
        code_in, stdout, stderr, *more = descriptors
        try:
            process = subprocess.Popen(
                command,
                env=clean_environment(),
                pass_fds=[self._news_in, *more],
                cwd="/",
                start_new_session=True,
                stdin=code_in,
                stdout=stdout,
                stderr=stderr,
            )
        except BaseException as error:
            self._ready.set_exception(error)
            return
        inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._ready.set_result(process)
        _, status, usage = os.wait4(process.pid, 0)
        # It is reaped: Popen must not wait again.
        process.returncode = os.waitstatus_to_exitcode(status)
        scale = 1024 if sys.platform == "darwin" else 1  # ru_maxrss is in bytes there
        # Linux hands a process's peak down to those it starts: what is not above it says nothing.
        peak = usage.ru_maxrss if usage.ru_maxrss > inherited else 0
        ending = ENDING.pack(status, usage.ru_utime + usage.ru_stime, peak // scale)
        os.write(self._news_in, ENDED + ending)

    def fileno(self) -> int:
        """The descriptor that becomes readable when a message arrives."""
        return self._news

    @property
    def has_ended(self) -> bool:
        """Whether no further message will come."""
        return self.wait_status is not None or bool(self.lost)

    def read_message(self) -> None:
        """Read one message.

        The child's, that it is confined, or the waiter's, that it has ended.
        """
        kind = os.read(self._news, 1)
        if kind == CONFINED:
            # its start-up costs the snippet nothing
            self.confined = True
            self.started = time.perf_counter()
        elif kind == ENDED:
            wait_status, cpu_s, max_rss_kb = ENDING.unpack(os.read(self._news, ENDING.size))
            self.wait_status = wait_status
            self.cpu_s = cpu_s
            self.max_rss_kb = max_rss_kb

    def kill(self) -> None:
        """Kill it and all that is still in its process group."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal to it and to all that is still in its process group."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def close(self) -> None:
        """Close the descriptors, killing the child if it may still run."""
        if not self.has_ended:
            self.kill()
        self._waiter.join()
        os.close(self._news)
        os.close(self._news_in)


class FreshLink:
    """Link that starts one interpreter per call; the interface of ZygoteLink without a zygote."""

    pid: int | None = None

    def __init__(self, config: ExecutorConfig, layers: tuple[str, ...]) -> None:
        self._settings = zygote_settings(config, layers)
        self.greeting: dict[str, Any] = {}

    def after_fork(self) -> None:
        """Nothing is shared with the parent."""

    def start(self) -> None:
        """Start one interpreter, once, to find out what it can import and which layers it gets."""
        if self.greeting:
            return
        news, news_in = os.pipe()
        settings = {**self._settings, "greet": True}
        try:
            done = subprocess.run(
                self._command(settings, news_in),
                env=clean_environment(),
                pass_fds=[news_in],
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=BOOT_TIMEOUT_S,
                check=False,
            )
            os.set_blocking(news, False)
            with contextlib.suppress(BlockingIOError):
                self.greeting = json.loads(os.read(news, 1 << 16))
        except subprocess.TimeoutExpired as error:
            raise SandboxUnavailable(
                f"a fresh interpreter did not start within {BOOT_TIMEOUT_S:.0f} s"
            ) from error
        finally:
            os.close(news)
            os.close(news_in)
        if not self.greeting:
            why = done.stderr.decode("utf-8", "replace").strip()[-300:] or done.returncode
            raise SandboxUnavailable(f"a fresh interpreter did not start: {why}")
        # From now on an interpreter that gets less than this one refuses to run anything.
        self._settings |= {"layers": self.greeting["layers"], "runs_as": self.greeting["user"]}

    def _command(self, settings: dict[str, Any], news_in: int) -> list[str]:
        command = [*INTERPRETER, BOOT_ONE_SHOT, str(news_in), json.dumps(settings)]
        command.append(str(Path(__file__).resolve().parent))
        if sys.platform == "darwin" and os.path.exists(SEATBELT):
            command = [SEATBELT, "-p", SEATBELT_PROFILE, *command]
        return command

    def launch(
        self,
        descriptors: list[int],
        *,
        memory_bytes: int,
        cpu_s: int,
        seed: int | None,
        policy: bool,
    ) -> FreshChild:
        """Start one interpreter with [code, stdout, stderr] for 0, 1, 2.

        For a session, one more to say it is done.
        """
        settings = {
            **self._settings,
            "memory_bytes": memory_bytes,
            "cpu_s": cpu_s,
            "seed": seed,
            "policy": policy,
            "parent": os.getpid(),
            "done": descriptors[3] if len(descriptors) > 3 else 0,
        }
        news, news_in = os.pipe()
        return FreshChild(self._command(settings, news_in), descriptors, news, news_in)

    def kill(self) -> None:
        """Nothing lives on between calls."""

    def close(self) -> None:
        """Nothing lives on between calls."""
