"""Lock file of a run's results: two processes writing one run would mix its lines."""

from __future__ import annotations

import errno
import os
import socket
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

LOCK_FILE = ".lock"  # of a killed process it stays behind, and locks nothing
REMARK = "It locks nothing once that process has ended, however it did: remove it or leave it.\n"


class RunLockedError(RuntimeError):
    """Error of a run that is locked: another process works on it."""


class FileLock:
    """File lock, exclusive, held until `release` or the end of the process.

    A POSIX record lock: the system releases it with the process, and forked children do not
    inherit it. RunLockedError, naming the holder, if `results` are locked; `cure` says what to do.
    """

    def __init__(self, path: Path, results: Path, cure: str) -> None:
        self.path = path
        key = path.resolve()
        if key in _HELD:
            raise RunLockedError(f"{results} is in use by process {os.getpid()} (this one): {cure}")
        self._file = _opened(path)
        while (locked := _try_lock(self._file)) and not _is_there(path, self._file):
            self._file.close()  # the last holder removed it just now
            self._file = _opened(path)
        if not locked:
            self._file.seek(0)
            holder = " ".join(self._file.readline(200).split()) or "another process"
            self._file.close()
            raise RunLockedError(f"{results} is in use by {holder}: {cure}")
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n{REMARK}")
        self._file.flush()
        _HELD[key] = self

    def release(self, *, remove: bool = False) -> None:
        """Release the lock, and remove its file on request."""
        if remove:
            with suppress(OSError):  # Windows removes no open file
                self.path.unlink()
        self._file.close()
        _HELD.pop(self.path.resolve(), None)


class RunLock(FileLock):
    """Lock of a run's folder, against other processes."""

    def __init__(self, folder: Path) -> None:
        """Lock an existing folder."""
        cure = "wait for it or end it first, or start another run with --experiment_name NAME"
        super().__init__(folder / LOCK_FILE, folder, cure)


# This process's own: the system's lock keeps out others only.
_HELD: weakref.WeakValueDictionary[Path, FileLock] = weakref.WeakValueDictionary()


def lock_for_file(path: Path) -> FileLock:
    """Return the lock for a file that is being written, a hidden file in the same folder."""
    target = path.resolve()
    lock = target.with_name(f".{target.name}{LOCK_FILE}")
    return FileLock(lock, path, "wait for it or end it first, or name another --output")


def require_unlocked(folder: Path) -> None:
    """Require an unlocked folder: else RunLockedError."""
    if (folder / LOCK_FILE).exists():
        RunLock(folder).release()


def _opened(path: Path) -> Any:
    """Open a lock file; a link in its place, which anyone may plant in a shared folder, is none."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o666), "a+", encoding="utf-8")


def _is_there(path: Path, file: Any) -> bool:
    """Whether an open file is still the one of that path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _try_lock(file: Any) -> bool:
    """Lock a file without waiting.

    False if another process has it, True where locks do not exist.
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
