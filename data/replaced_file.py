"""Files written whole: under a name of their own first, and renamed when all is written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STREAMS = tuple(map(Path, ("/dev", "/dev/fd", "/proc/self/fd")))


def is_stream(path: Path) -> bool:
    """Return whether a path is written through: a device, a pipe, a name of an open stream."""
    return path.absolute().parent in _STREAMS or (path.exists() and not path.is_file())


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield where to write a file: a new one beside it, which takes its place when all is written.

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
