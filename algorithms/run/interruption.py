"""Deferred SIGINT, SIGTERM and SIGHUP, so that all processes stop at a checkpointable point."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM)
# and SIGHUP, of a terminal that is closed: under nohup it is ignored, and stays so
SIGNALS = (*ENDING, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))


class Interruption:
    """Interruption by signals (SIGINT, SIGTERM, SIGHUP), deferred to where it is allowed.

    There they raise KeyboardInterrupt.

    Elsewhere the weights may be in the middle of an update, or another process may be waiting for
    this one. A second signal ends a single process at once, without saving.
    """

    def __init__(self, *, alone: bool = True) -> None:
        self.alone = alone
        self._waiting = False
        self._allowed = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        for number in SIGNALS:
            if number not in ENDING and signal.getsignal(number) == signal.SIG_IGN:
                continue
            with contextlib.suppress(ValueError):  # only the main thread may set handlers
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def allow_interrupts(self) -> Iterator[None]:
        """Context manager: allow interrupts inside, also one that was deferred.

        No other process may depend on this block's completion.
        """
        self._allowed = True
        try:
            if self._waiting:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False
            self._waiting = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._allowed:
            self._allowed = False  # a second one must not cut off what the first one starts
            raise KeyboardInterrupt
        if self._waiting and self.alone:
            raise SystemExit(128 + number)
        self._waiting = True
