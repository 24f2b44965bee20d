"""Output of commands: aligned tables, the next command, a reader that may go away.

Whoever reads standard output and error may leave: `| head`, a terminal that is closed.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast


def pass_at_k_rows(reports: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of a table of pass@k, by category, header first, from sample reports."""
    ks = sorted({int(k) for each in reports.values() for k in each.get("pass@k", ())})
    heads = [f"{name[:-1]}{k}" for name in ("pass@k", "pass^k") for k in ks[name == "pass^k" :]]
    rows = [["category", "samples", *heads]]
    for category, each in reports.items():
        # "pass@4" -> each["pass@k"]["4"]
        cells = [_estimate(each.get(f"{head[:5]}k", {}).get(head[5:])) for head in heads]
        rows.append([category, str(each.get("num_samples", 1)), *cells])
    return rows


def align_rows(rows: Sequence[Sequence[str]]) -> str:
    """Align rows of cells as a plain table, the first column to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )


def interval_text(interval: Sequence[float] | None) -> str:
    """Return an interval as text, in percent."""
    return f"{100 * interval[0]:.1f}-{100 * interval[1]:.1f}%" if interval else "-"


def _estimate(report: Mapping[str, Any] | None) -> str:
    if report is None:
        return "-"
    return f"{100 * report['estimate']:.1f}% ({interval_text(report['interval'])})"


def percent(rate: float | None) -> str:
    """Return percent of a rate, as text."""
    return "-" if rate is None else f"{100 * rate:.2f}%"


def next_command(name: str, *words: str | Path, like: argparse.Namespace | None = None) -> str:
    """Return "next: fctncalling NAME WORDS", with the tasks, tools and reading of `like`."""
    flags: list[str | Path] = []
    if like is not None:
        for path in like.dataset_path or []:
            flags += ["--dataset_path", path]
        if hasattr(like, "dots"):  # a command that reads recorded answers
            reading = {"form": None, "handler": None, "dots": "auto"}
            for flag, default in reading.items():
                value = getattr(like, flag, default)
                flags += [] if value == default else [f"--{flag}", str(value)]
        flags += ["--tools", *like.tools] if like.tools else []
        flags += ["--tools_seed", like.tools_seed] if like.tools_seed else []
        flags += ["--allow_task_tools"] if like.allow_task_tools else []
    return f"next: fctncalling {shlex.join(map(str, [name, *words, *flags]))}"


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
