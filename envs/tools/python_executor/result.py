"""Result of one call, with bounded output."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Literal, get_args

from fctncalling.data.unsafe_text import truncate_text

Status = Literal[
    "ok", "error", "timeout", "memory", "output_limit", "killed", "denied", "setup_error"
]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True)
class ToolResult:
    """Result of a call of the executor; only `setup_error`, our failure, is worth a retry.

    ok: exit code 0. error: any other: a traceback (a MemoryError at the memory limit is one),
    sys.exit. timeout: clock or CPU limit. memory: killed by the kernel for what it had allocated.
    output_limit: wrote more than the raw cap. killed: by a signal, told in `exit_code` as -number.
    denied: not run, by the configuration. setup_error: the executor failed, the snippet never ran
    or its end is unknown.
    """

    status: Status
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None  # None where it did not run to an exit the kernel told us
    wall_s: float = 0.0  # seconds from the child's start
    cpu_s: float = 0.0
    max_rss_mb: float = 0.0  # 0 where unknown
    queue_s: float = 0.0  # seconds waited for a free place, before the clock started
    truncated: bool = False  # whether output was cut to max_output_length
    reason: str = ""  # one line on how it ended, where output and traceback do not say it all

    @property
    def text(self) -> str:
        """Result as text for the model.

        Output, traceback, then one line on how it ended where that says more.
        """
        return _lines(self.stdout, self.stderr, self.reason)

    def text_within(self, max_characters: int) -> str:
        """Return the text cut to a number of characters.

        The ending, which says what went wrong, gets half of them.
        """
        ending = _lines(self.stderr, self.reason)
        room = max(max_characters // 2, max_characters - len(self.stdout) - 1)
        ending = truncate_text(ending, room, keep_end=True)
        return _lines(
            truncate_text(self.stdout, max_characters - len(ending) - bool(ending)), ending
        )


class BoundedOutput:
    """Output of a stream in bounded memory: its first or its last part.

    Of standard error the end is kept: there stands the exception's type. Four bytes a character are
    enough in UTF-8.
    """

    def __init__(self, max_characters: int, *, keep_end: bool) -> None:
        self.max_characters = max_characters
        self.keep_end = keep_end
        self.max_bytes = 4 * max_characters + 4
        self.total_bytes = 0
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        """Add the next bytes of the stream."""
        self.total_bytes += len(data)
        if not self.keep_end:
            self._bytes += data[: max(0, self.max_bytes - len(self._bytes))]
            return
        self._bytes += data
        if len(self._bytes) > 2 * self.max_bytes:
            del self._bytes[: -self.max_bytes]

    @property
    def truncated(self) -> bool:
        """Whether the output was cut."""
        return self.total_bytes > len(self._bytes) or len(self._decoded()) > self.max_characters

    def text(self) -> str:
        """Return the output as text of at most max_characters, with a marker at the cut."""
        text = self._decoded()
        if not self.truncated:
            return text
        return truncate_text(text, self.max_characters, keep_end=self.keep_end, certain=True)

    def _decoded(self) -> str:
        return self._bytes.decode("utf-8", "replace")


def _lines(*parts: str) -> str:
    return "\n".join(part.rstrip("\n") for part in parts if part.rstrip("\n"))


def ends_in_memory_error(stderr: str) -> bool:
    """Whether a traceback ends in a MemoryError, numpy's included."""
    last = stderr.rstrip().rpartition("\n")[2]
    return last.startswith(
        ("MemoryError", "numpy._core._exceptions._ArrayMemoryError", "numpy.core._exceptions")
    )


def signal_name(number: int) -> str:
    """Return a signal's name, or its number if it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
