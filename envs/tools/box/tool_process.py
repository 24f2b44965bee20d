"""Worker process for tools, with a hard timeout.

The worker is a new interpreter, not a fork: the caller may be a trainer with threads and a GPU. It
gets the functions once, by cloudpickle, then one request at a time. Its answers are plain text of
bounded length, nothing that is unpickled; what tools print goes nowhere. It ends when its caller
does. This file imports nothing of the project: the worker runs it by its path, and starts in a
tenth of the time the package would take.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

FRAME = struct.Struct("=cQ")  # kind, length of what follows
READY, RESULT, ERROR = b"R", b"T", b"E"
BOOT_TIMEOUT_S = 120.0
BOOT = (
    "import sys, json, runpy; sys.path[:] = json.loads(sys.argv[2]); "
    "runpy.run_path(sys.argv[3], run_name='tool_worker')['serve_calls'](int(sys.argv[1]))"
)


class ToolProcessError(Exception):
    """Error of a tool process that died or never started.

    Our failure, or a tool that takes its process with it.
    """


class ToolTimeoutError(Exception):
    """Error of a tool that exceeded its time limit; its process was killed."""


class ToolProcess:
    """Worker process that runs tools, on its caller's side; not thread-safe."""

    def __init__(self, pickled_functions: bytes) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", BOOT, str(theirs.fileno()), json.dumps(sys.path), __file__]
        with theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._socket = ours
        try:
            kind, text = self._exchange(pickled_functions, time.monotonic() + BOOT_TIMEOUT_S)
        except OSError as error:
            self.close()
            raise ToolProcessError(f"a process for the tools did not start: {error}") from error
        if kind != READY:
            self.close()
            raise ToolProcessError(f"the tools could not be loaded in a process: {text}")

    def call(
        self, name: str, arguments: Mapping[str, Any], *, timeout_s: float, max_characters: int
    ) -> tuple[bool, str]:
        """Call a tool in the process; return whether it returned, and its text or error.

        The text is cut one character over the limit.

        Raises ToolTimeoutError when time is up and ToolProcessError when the process dies; it is
        over then.
        """
        request = pickle.dumps((name, dict(arguments), max_characters))
        try:
            kind, text = self._exchange(request, time.monotonic() + timeout_s)
        except TimeoutError as error:
            self.close()
            raise ToolTimeoutError(f"timed out after {timeout_s:g} s") from error
        except OSError as error:
            self.close()
            raise ToolProcessError(
                f"its process died with status {self._process.returncode}"
            ) from error
        return kind == RESULT, text

    def close(self) -> None:
        """Kill the worker and the processes that it started in its session's group."""
        self._socket.close()
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _exchange(self, message: bytes, deadline: float) -> tuple[bytes, str]:
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        send_frame(self._socket, RESULT, message)
        kind, size = FRAME.unpack(receive_bytes(self._socket, FRAME.size, deadline))
        return kind, receive_bytes(self._socket, size, deadline).decode("utf-8", "replace")


def send_frame(connection: socket.socket, kind: bytes, message: bytes) -> None:
    """Send one message over a socket: its kind and its bytes."""
    connection.sendall(FRAME.pack(kind, len(message)) + message)


def receive_bytes(connection: socket.socket, size: int, deadline: float | None = None) -> bytes:
    """Receive exactly `size` bytes from a socket.

    TimeoutError past the deadline, ConnectionError at the other side's end.
    """
    parts: list[bytes] = []
    while size:
        if deadline is not None:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("the other side has ended")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def result_text(value: Any) -> str:
    """Convert a tool's result to text.

    A string itself, JSON where possible, else its `repr`.
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


# --- in the worker
# --------------------------------------------------------------------------------------------------


def serve_calls(descriptor: int) -> NoReturn:
    """Serve calls in the worker process until the caller ends."""
    connection = socket.socket(fileno=descriptor)
    _end_with(os.getppid())
    try:
        functions: dict[str, Callable[..., Any]] = pickle.loads(_next_message(connection))
        send_frame(connection, READY, b"")
    except BaseException as error:
        send_frame(connection, ERROR, f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
        os._exit(1)
    try:
        while True:
            name, arguments, max_characters = pickle.loads(_next_message(connection))
            kind, text = _outcome(functions[name], arguments)
            send_frame(connection, kind, text[: max_characters + 1].encode("utf-8", "replace"))
    except OSError:
        os._exit(0)


def _next_message(connection: socket.socket) -> bytes:
    _, size = FRAME.unpack(receive_bytes(connection, FRAME.size))
    return receive_bytes(connection, size)


def _outcome(function: Callable[..., Any], arguments: dict[str, Any]) -> tuple[bytes, str]:
    try:
        return RESULT, result_text(function(**arguments))
    except BaseException as error:  # sys.exit too: a tool's wish to end is not the worker's
        try:
            return ERROR, f"{type(error).__name__}: {error}"
        except BaseException:
            return ERROR, type(error).__name__


def _end_with(parent: int) -> None:
    """Make this process die with its parent, even while a tool hangs."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
