"""Lock file of a run's results folder: two processes writing one run would mix its lines."""

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
    """Exclusive lock of a folder until `release` or the end of this process, kills included.

    A POSIX record lock: the system releases it with the process, and forked children do not
    inherit it.
    """

    def __init__(self, folder: Path) -> None:
        """Lock an existing folder; RunLockedError, naming the holder, if it is locked."""
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
        """Release the lock."""
        self._file.close()
        _HELD.pop(self.path.resolve(), None)


# This process's own: the system's lock keeps out others only.
_HELD: weakref.WeakValueDictionary[Path, RunLock] = weakref.WeakValueDictionary()


def require_unlocked(folder: Path) -> None:
    """Raise RunLockedError if a folder is locked; writes nothing to one that never was."""
    if (folder / LOCK_FILE).exists():
        RunLock(folder).release()


def _in_use_message(folder: Path, holder: str) -> str:
    return (
        f"{folder} is in use by {holder}: wait for it or end it first, or start another run with "
        "--experiment_name NAME"
    )


def _try_lock(file: Any) -> bool:
    """Lock a file without waiting; False if another process has it, True where locks do not
    exist.
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
