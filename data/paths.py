"""Paths of embedded and official data."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fctncalling.data


def is_source_checkout() -> bool:
    """Whether the package runs from a source checkout, where data lies next to the code."""
    return (_room().parent / "setup.py").is_file()


def official_data_folder() -> Path:
    """Return the folder of BFCL's official data, where `import-bfcl` writes by default.

    Never one of installed packages.
    """
    return _room() / "bfcl" if is_source_checkout() else user_data_folder()


def user_data_folder() -> Path:
    """Return the user's folder for official data (XDG_DATA_HOME, or ~/.local/share).

    It need not exist.
    """
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "fctncalling" / "bfcl"


def user_cache_folder() -> Path:
    """Return the user's cache folder (XDG_CACHE_HOME, or ~/.cache); it may not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fctncalling"


def _room() -> Path:
    return Path(str(fctncalling.data.__file__)).resolve().parent


_STREAMS = tuple(map(Path, ("/dev", "/dev/fd", "/proc/self/fd")))


def is_stream(path: Path) -> bool:
    """Whether a path is a device, a pipe or an open file descriptor."""
    return path.absolute().parent in _STREAMS or (path.exists() and not path.is_file())


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Context manager: write a file atomically by way of a temporary path.

    The path yielded replaces the file once the block ends. Its name is random, so nobody can plant
    a link there. A stream is yielded itself, as it cannot be replaced; a link stays a link. Raises
    OSError.
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
