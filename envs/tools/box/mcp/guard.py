"""Guard of a stdio server: runs its command, and ends it with the process that wanted it.

`python guard.py PARENT COMMAND ...` passes the command's output on. It kills its process group when
the parent is gone (a server that hangs would stay for ever), and when a line of the output is
longer than MAX_LINE_BYTES, which the other side would have to hold as a whole. Of the command's
standard error the last ERROR_BYTES are passed on when it ends. This file imports nothing of the
project: it is run by its path.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from typing import NoReturn

MAX_LINE_BYTES = 8_000_000
ERROR_BYTES = 2_000
POLL_S = 0.5
TOO_LONG = f"the server wrote a message of more than {MAX_LINE_BYTES} bytes"


def guard(parent: int, command: list[str]) -> int:
    """Run a command until it ends; return its exit status."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(0)  # the command's alone
    assert child.stdout is not None
    assert child.stderr is not None
    output, errors = child.stdout.fileno(), child.stderr.fileno()
    open_pipes, last_error, line_bytes = [output, errors], b"", 0
    while open_pipes:
        ready, _, _ = select.select(open_pipes, [], [], POLL_S)
        if os.getppid() != parent:
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
                line_bytes = len(chunk) - line_end - 1 + (line_bytes if line_end < 0 else 0)
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
    os.killpg(0, signal.SIGKILL)
    raise AssertionError("killed")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, lambda *_: _kill_all(""))  # nobody reads: the parent is gone
    try:
        STATUS = guard(int(sys.argv[1]), sys.argv[2:])
    except OSError as failure:
        sys.exit(f"{failure}")
    sys.exit(STATUS if STATUS >= 0 else 128 - STATUS)
