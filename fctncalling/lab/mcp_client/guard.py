"""Guard process of a stdio server: runs its command, and ends it with the client.

`python guard.py PARENT COMMAND ...` passes the command's output on. It is two processes: the outer
one is what the parent sees and may kill; the inner one, in a session of its own, runs the command.
The inner one kills its process group when the outer one or the parent is gone (a server that hangs
would stay for ever), and when a line of the output is longer than MAX_LINE_BYTES, which the other
side would have to hold as a whole. On Linux it adopts what the server leaves behind, daemons in
sessions of their own too, and kills that when it ends. Of the command's standard error the last
ERROR_BYTES are passed on. `python guard.py --own_pipes PARENT COMMAND ...` is one process, which
leaves the pipes to the command and reads none of them. This file imports nothing of the project: it
is run by its path.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

MAX_LINE_BYTES = 8_000_000
ERROR_BYTES = 2_000
OBJECT_BYTES = 100  # beside those of its text: an object of JSON takes hundreds when it is read
POLL_S = 0.5
CLEAN_UP_S = 5.0
GRACE_S = 1.0  # between asking a command to end and killing it
OWN_PIPES = "--own_pipes"
TOO_LONG = (
    f"the server wrote a message of more than {MAX_LINE_BYTES} bytes (an object counts "
    f"{OBJECT_BYTES} more)"
)
_SET_CHILD_SUBREAPER = 36  # of prctl


def weighted_message_bytes(data: bytes) -> int:
    """Return the bytes of MAX_LINE_BYTES that a part of a message takes.

    Inside texts quotes are escaped, so that only objects count as such.
    """
    return len(data) + OBJECT_BYTES * data.count(b'{"')


def guarded(command: list[str]) -> list[str]:
    """Wrap a command so that it, and all that it started, ends with this process."""
    if sys.platform == "win32":
        return command
    return [sys.executable, "-I", "-S", __file__, OWN_PIPES, str(os.getpid()), *command]


def run_with_own_pipes(parent: int, command: list[str]) -> int:
    """Run a command until it ends, this process is asked to end, or the parent has ended."""
    _adopt_orphans()
    try:
        child = subprocess.Popen(command)
    except OSError as failure:
        sys.exit(f"{command[0]}: it cannot be started: {failure}")
    for pipe in (0, 1):  # the command's alone: their other ends see when it closes them
        os.close(pipe)
    signal.signal(signal.SIGTERM, lambda *_: _end_and_exit(child))
    while True:
        with suppress(subprocess.TimeoutExpired):
            status = child.wait(POLL_S)
            break
        if os.getppid() != parent:
            _end_and_exit(child)
    _kill_children()
    if status < 0:  # end as the command did
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _end_and_exit(child: subprocess.Popen[bytes]) -> NoReturn:
    """Ask a command to end, kill it GRACE_S later with all its descendants, and exit."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_S)
    _kill_children()
    sys.exit(128 + signal.SIGTERM)


def run_guarded_command(parent: int, command: list[str]) -> int:
    """Run a command until it or the parent ends; return its exit status."""
    outer_is_here, outer_lives = os.pipe()
    inner_is_here, inner_lives = os.pipe()
    if (inner := os.fork()) == 0:
        os.close(outer_lives)
        os.setsid()
        return _run(command, outer_is_here)
    os.close(inner_lives)
    os.close(0)  # the command's alone
    signal.signal(signal.SIGTERM, lambda *_: os.dup2(inner_is_here, outer_lives))  # closes it
    while not select.select([inner_is_here], [], [], POLL_S)[0]:
        if os.getppid() != parent:
            os.dup2(inner_is_here, outer_lives)
    status = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
    if status < 0:
        os.kill(os.getpid(), -status)
    return status


def _run(command: list[str], outer_is_here: int) -> int:
    """Run a command until it or the outer process ends; return its exit status."""
    _adopt_orphans()
    signal.signal(signal.SIGPIPE, lambda *_: _kill_all(""))  # nobody reads: the parent is gone
    try:
        status = _pass_on(command, outer_is_here)
    except OSError as failure:
        sys.exit(f"{failure}")
    _kill_children()
    return status if status >= 0 else 128 - status


def _pass_on(command: list[str], outer_is_here: int) -> int:
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(0)  # the command's alone
    assert child.stdout is not None
    assert child.stderr is not None
    output, errors = child.stdout.fileno(), child.stderr.fileno()
    open_pipes, last_error, line_bytes = [output, errors], b"", 0
    while open_pipes:
        ready, _, _ = select.select([*open_pipes, outer_is_here], [], [], POLL_S)
        if outer_is_here in ready:
            _kill_all("")
        if not ready and child.poll() is not None:
            break  # what it left behind holds the pipes open
        for pipe in ready:
            chunk = os.read(pipe, 65_536)
            if not chunk:
                open_pipes.remove(pipe)
            elif pipe == errors:
                last_error = (last_error + chunk)[-ERROR_BYTES:]
            else:
                line_end = chunk.rfind(b"\n")
                rest = weighted_message_bytes(chunk[line_end + 1 :])
                line_bytes = rest + (line_bytes if line_end < 0 else 0)
                if line_bytes > MAX_LINE_BYTES:
                    _kill_all(TOO_LONG)
                _write_all(1, chunk)
    _write_all(2, last_error)
    return child.wait()


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _kill_all(reason: str) -> NoReturn:
    """Kill the process group, this process included."""
    if reason:
        _write_all(2, reason.encode())
    _kill_children()
    os.killpg(0, signal.SIGKILL)
    raise AssertionError("killed")


def _kill_children() -> None:
    """Kill children until none is left: grandchildren become children (on Linux)."""
    ends_at = time.monotonic() + CLEAN_UP_S
    while time.monotonic() < ends_at:
        try:
            listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        except OSError:  # no Linux
            return
        for child in listed:
            with suppress(OSError):
                os.kill(int(child), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _adopt_orphans() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    if sys.argv[1] == OWN_PIPES:
        sys.exit(run_with_own_pipes(int(sys.argv[2]), sys.argv[3:]))
    sys.exit(run_guarded_command(int(sys.argv[1]), sys.argv[2:]))
