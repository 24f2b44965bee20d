"""Deferred SIGINT/SIGTERM, so that all processes stop at a checkpointable point."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Interruption:
    """Turns Ctrl-C (SIGINT) and a polite kill (SIGTERM) into KeyboardInterrupt at a moment that can
    be saved.

    Elsewhere it waits: the weights may be between two states, or another process may be waiting for
    this one. A second one ends a lone process at once, and nothing is saved.
    """

    def __init__(self, *, alone: bool = True) -> None:
        self.alone = alone
        self._waiting = False
        self._allowed = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError):  # only the main thread may set handlers
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Let an interrupt end this block at once, also one that has been waiting; no other process
        may wait for it.
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
