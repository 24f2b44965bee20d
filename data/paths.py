"""Paths of embedded and official data."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fctncalling.data


def is_source_checkout() -> bool:
    """Whether the package is a source checkout, where data may be written beside the code."""
    return (_room().parent / "setup.py").is_file()


def official_data_folder() -> Path:
    """Return the official data folder, BFCL's, by default where `import-bfcl` writes to.

    Never one of installed packages.
    """
    return _room() / "bfcl" if is_source_checkout() else user_data_folder()


def user_data_folder() -> Path:
    """Return the user data folder for official data (XDG_DATA_HOME, or ~/.local/share).

    It need not exist.
    """
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "fctncalling" / "bfcl"


def user_cache_folder() -> Path:
    """Return the user's cache folder (XDG_CACHE_HOME, or ~/.cache), existing or not."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fctncalling"


def _room() -> Path:
    return Path(str(fctncalling.data.__file__)).resolve().parent


_STREAMS = tuple(map(Path, ("/dev", "/dev/fd", "/proc/self/fd")))


def is_stream(path: Path) -> bool:
    """Whether a path is a stream: a device, a pipe, a name of an open one."""
    return path.absolute().parent in _STREAMS or (path.exists() and not path.is_file())


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Context manager: write a file atomically, by a path that takes its place when all is written.

    Nobody can guess the new one's name and plant a link there. A stream is yielded itself, for
    nothing may take its place; a link stays one. Raises OSError.
    """
    if is_stream(path):
        yield path
        return
    target = path.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    partial = Path(name)
    try:
        os.close(handle)
        partial.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
