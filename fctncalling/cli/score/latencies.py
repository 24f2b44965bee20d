"""Latency statistics.

Mean, standard deviation and 95th percentile of any number of latencies, in bounded memory.
"""

from __future__ import annotations

import heapq
import math
import statistics
from array import array
from collections.abc import Iterator
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, Any

_BYTES = array("d").itemsize
_READ = 1024  # numbers read at once


class Latencies:
    """Latencies in seconds; every `held` of them move to a temporary file as a sorted run."""

    def __init__(self, held: int = 1 << 14) -> None:
        self._held = held
        self._count = 0
        self._runs = 0
        self._newest = array("d")
        self._file: IO[bytes] | None = None

    def add(self, latency: Any) -> None:
        """Add a result's latency in seconds, or a list (turns) of lists (steps) of them.

        Zeros are ignored.
        """
        if isinstance(latency, list):
            for each in latency:
                self.add(each)
        elif isinstance(latency, int | float) and latency:
            self._newest.append(latency)
            self._count += 1
            if len(self._newest) == self._held:
                self._write_run()

    def summary(self) -> tuple[str, str, str] | None:
        """Return mean, standard deviation and 95th percentile as BFCL shows them.

        None without latencies.
        """
        if not self._count:
            return None
        deviation = statistics.stdev(self._sorted()) if self._count > 1 else 0.0
        at = 0.95 * (self._count - 1)
        below, *more = islice(self._sorted(), math.floor(at), math.floor(at) + 2)
        high = below + ((more or [below])[0] - below) * (at - math.floor(at))
        return (
            str(round(statistics.mean(self._sorted()), 2)),
            str(round(deviation, 2)),
            str(round(high, 2)),
        )

    def _sorted(self) -> Iterator[float]:
        return heapq.merge(*map(self._run, range(self._runs)), sorted(self._newest))

    def _write_run(self) -> None:
        self._file = self._file or TemporaryFile()  # noqa: SIM115 - it goes with this object
        self._file.seek(self._runs * self._held * _BYTES)
        self._file.write(array("d", sorted(self._newest)).tobytes())
        self._runs = self._runs + 1
        self._newest = array("d")

    def _run(self, number: int) -> Iterator[float]:
        assert self._file is not None
        for start in range(number * self._held, (number + 1) * self._held, _READ):
            self._file.seek(start * _BYTES)
            yield from array(
                "d", self._file.read(min(_READ, (number + 1) * self._held - start) * _BYTES)
            )
