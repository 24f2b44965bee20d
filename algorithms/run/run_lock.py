"""A lock on a run's results folder: two processes that write one run would mix its lines."""

from __future__ import annotations

import errno
import os
import socket
import weakref
from pathlib import Path
from typing import Any

LOCK_FILE = ".lock"  # stays behind, unlocked, after a run


class RunLockedError(RuntimeError):
    """Another process works on the run."""


class RunLock:
    """Holds a folder until `release`, or to the end of this process, however that comes.

    The lock is a POSIX record lock: the system lets go of it with the process, and forked children
    do not inherit it.
    """

    def __init__(self, folder: Path) -> None:
        """Take the lock of a folder that exists; RunLockedError, naming who has it, where another
        one works there.
        """
        self.path = folder / LOCK_FILE
        key = self.path.resolve()
        if key in _HELD:
            raise RunLockedError(_in_use_message(folder, f"process {os.getpid()} (this one)"))
        self._file = self.path.open("a+", encoding="utf-8")
        if not _try_lock(self._file):
            self._file.seek(0)
            holder = " ".join(self._file.read(200).split()) or "another process"
            self._file.close()
            raise RunLockedError(_in_use_message(folder, holder))
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self._file.flush()
        _HELD[key] = self

    def release(self) -> None:
        """Let go of the folder."""
        self._file.close()
        _HELD.pop(self.path.resolve(), None)


# This process's own: the system's lock keeps out others only.
_HELD: weakref.WeakValueDictionary[Path, RunLock] = weakref.WeakValueDictionary()


def require_unlocked(folder: Path) -> None:
    """Raise RunLockedError where a process works in a folder; nothing is written where none ever
    did.
    """
    if (folder / LOCK_FILE).exists():
        RunLock(folder).release()


def _in_use_message(folder: Path, holder: str) -> str:
    return (
        f"{folder} is in use by {holder}: wait for it or end it first, or start another run with "
        "--experiment_name NAME"
    )


def _try_lock(file: Any) -> bool:
    """Lock a file without waiting; return False where another process has it, True where there are
    no such locks.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN)  # some file systems know no locks
    return True
