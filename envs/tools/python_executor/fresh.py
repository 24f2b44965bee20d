"""The fallback backend: a fresh, isolated interpreter per call. Slower by its start, and as confined as the system can.

On macOS there is neither Landlock nor seccomp; Seatbelt (`sandbox-exec`) stands in where it is installed. That path has
not been run on such a machine: the self-test at start-up decides what holds, as everywhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from fctncalling.envs.tools.python_executor.config import ExecutorConfig
from fctncalling.envs.tools.python_executor.link import BOOT, clean_environment, zygote_settings
from fctncalling.envs.tools.python_executor.zygote import CONFINED, ENDED, ENDING

BOOT_ONE_SHOT = BOOT.replace(".zygote import main", ".one_shot import main")
SEATBELT = "/usr/bin/sandbox-exec"
SEATBELT_PROFILE = (
    "(version 1)(allow default)(deny network*)(deny process-fork)(deny file-write*)"
    "(deny signal (target others))"
)


class FreshChild:
    """One interpreter and the thread that waits for its end. Times are time.perf_counter()."""

    def __init__(self, process: subprocess.Popen[bytes], news: int, news_in: int) -> None:
        self._process, self._news, self._news_in = process, news, news_in
        self.started: float | None = None
        self.confined = False
        self.wait_status: int | None = None
        self.cpu_s, self.max_rss_kb = 0.0, 0
        self.lost = ""
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()

    def _wait(self) -> None:
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(
            status
        )  # it is reaped: Popen must not wait again
        scale = 1024 if sys.platform == "darwin" else 1  # ru_maxrss is in bytes there
        ending = ENDING.pack(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // scale)
        os.write(self._news_in, ENDED + ending)

    def fileno(self) -> int:
        """The descriptor that becomes readable when there is news."""
        return self._news

    @property
    def over(self) -> bool:
        """Whether nothing more will be told."""
        return self.wait_status is not None or bool(self.lost)

    def read_news(self) -> None:
        """Take the next word: the child's, that it is confined, or the waiter's, that it has ended."""
        kind = os.read(self._news, 1)
        if kind == CONFINED:
            self.confined, self.started = (
                True,
                time.perf_counter(),
            )  # its start-up costs the snippet nothing
        elif kind == ENDED:
            self.wait_status, self.cpu_s, self.max_rss_kb = ENDING.unpack(
                os.read(self._news, ENDING.size)
            )

    def kill(self) -> None:
        """Kill it and all that is still in its process group."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Give the descriptors back, killing what may still run."""
        if not self.over:
            self.kill()
        self._waiter.join()
        os.close(self._news)
        os.close(self._news_in)


class FreshLink:
    """Starts one interpreter a call; has the shape of a ZygoteLink with no zygote."""

    pid: int | None = None

    def __init__(self, config: ExecutorConfig, layers: tuple[str, ...]) -> None:
        self._settings = zygote_settings(config, layers)
        self.greeting: dict[str, Any] = {}

    def start(self) -> None:
        """Find out once which layers there are."""
        if not self.greeting:
            linux = sys.platform == "linux"
            wanted = tuple(self._settings["layers"])
            missing = (
                {}
                if linux
                else {layer: "Linux only" for layer in ("landlock", "seccomp") if layer in wanted}
            )
            present = [layer for layer in wanted if layer not in missing]
            self._settings["layers"] = present
            user = "user nobody" if linux and os.getuid() == 0 else "the caller's user"
            self.greeting = {"layers": present, "missing": missing, "user": user}

    def launch(
        self,
        descriptors: list[int],
        *,
        memory_bytes: int,
        cpu_s: int,
        seed: int | None,
        policy: bool,
    ) -> FreshChild:
        """Start one interpreter with [code, stdout, stderr] for 0, 1, 2."""
        news, news_in = os.pipe()
        settings = {
            **self._settings,
            "memory_bytes": memory_bytes,
            "cpu_s": cpu_s,
            "seed": seed,
            "policy": policy,
        }
        command = [sys.executable, "-I", "-c", BOOT_ONE_SHOT, str(news_in), json.dumps(settings)]
        command.append(str(Path(__file__).resolve().parent))
        if sys.platform == "darwin" and os.path.exists(SEATBELT):
            command = [SEATBELT, "-p", SEATBELT_PROFILE, *command]
        code_in, stdout, stderr = descriptors
        process = subprocess.Popen(
            command, env=clean_environment(), pass_fds=[news_in], cwd="/", start_new_session=True,
            stdin=code_in, stdout=stdout, stderr=stderr,
        )  # fmt: skip
        return FreshChild(process, news, news_in)

    def kill(self) -> None:
        """Nothing lives on between calls."""

    def close(self) -> None:
        """Nothing lives on between calls."""
