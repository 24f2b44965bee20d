"""Standard output and error whose reader may go away: `| head`, a terminal that is closed."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, cast

GONE = (errno.EPIPE, errno.EIO)  # a pipe, a terminal, that nobody reads any more
READER_GONE = 141  # exit code, as shells give it to a program that SIGPIPE ends


@contextlib.contextmanager
def ignore_broken_pipe(*, goes_on: bool) -> Iterator[None]:
    """Context manager: ignore broken pipes, prints that nobody reads any more.

    goes_on: whether the block goes on without a reader of its output; else SystemExit ends it.
    Signals are left alone: SIGPIPE would kill it for the pipe of a worker or a server too.
    """
    output, error = (
        None if stream is None else cast("IO[str]", _Stream(stream, goes_on=lives))
        for stream, lives in ((sys.stdout, goes_on), (sys.stderr, True))
    )
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
        try:
            yield
        finally:
            for stream in filter(None, (error, output)):
                stream.flush()


class _Stream:
    """A text stream that leads nowhere after its first error."""

    def __init__(self, stream: IO[str], *, goes_on: bool) -> None:
        self._stream = stream
        self._goes_on = goes_on

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _lose(self, error: OSError) -> None:
        """Lead the stream nowhere, what it still holds too; SystemExit where that ends the work."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        if self._goes_on:
            return
        if error.errno in GONE:
            raise SystemExit(READER_GONE) from None
        raise SystemExit(f"error: standard output cannot be written to ({error})") from None
