"""Daemon worker threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers(Generic[Item, Result]):
    """Pool of daemon threads that apply a function to items.

    An interrupted run does not wait for requests in flight.
    """

    def __init__(self, count: int, work: Callable[[Item], Result]) -> None:
        self.stopped = threading.Event()
        self._count = count
        self._work = work
        self._queue = SimpleQueue[Item]()
        self._ended = SimpleQueue[Result | BaseException]()
        self._free = threading.Semaphore(
            0
        )  # items asked and not yet taken; one more for each thread at the end

    def results(self, items: Iterable[Item]) -> Iterator[Result]:
        """Yield results in order of completion, reading items a little ahead.

        Re-raises errors of `work`.
        """
        for _ in range(self._count):
            threading.Thread(target=self._run, daemon=True).start()
        under_way = 0
        for item in items:
            self._queue.put(item)
            self._free.release()
            under_way += 1
            if under_way >= 2 * self._count:
                yield self._next()
                under_way -= 1
        for _ in range(under_way):
            yield self._next()

    def stop(self) -> list[Result]:
        """Start no more items; return the finished results not yielded yet."""
        self.stopped.set()
        self._free.release(self._count)
        ended: list[Result] = []
        while True:
            try:
                result = self._ended.get_nowait()
            except Empty:
                return ended
            if not isinstance(result, BaseException):
                ended.append(result)

    def _next(self) -> Result:
        result = self._ended.get()
        if isinstance(result, BaseException):
            raise result
        return result

    def _run(self) -> None:
        while self._free.acquire() and not self.stopped.is_set():
            try:
                self._ended.put(self._work(self._queue.get()))
            except BaseException as error:  # handed to who waits for results
                self._ended.put(error)
