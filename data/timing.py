"""Timing hook for a profiler; without a listener it only calls the function.

It is here because environments and algorithms, which do not import each other, both time their
parts.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Listener = Callable[[str, float, float], None]
"""Called with (part, wall seconds, CPU seconds of the thread) after each call, in any thread."""

_listener: Listener | None = None


def time_calls(part: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: time each call under a name, and report its seconds while a listener is set."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            listener = _listener
            if listener is None:
                return function(*args, **keywords)
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return function(*args, **keywords)
            finally:
                listener(part, time.perf_counter() - wall, time.thread_time() - cpu)

        return call

    return decorate


@contextmanager
def listen_to_timings(listener: Listener) -> Iterator[None]:
    """Context manager: listen to the timings of all threads; one listener at a time."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before
