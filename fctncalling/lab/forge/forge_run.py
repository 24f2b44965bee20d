"""A forge run: tasks one by one, of BFCL's categories or of an API, no user texts twice."""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from fctncalling.lab.forge.forge_files import ForgeFiles, LedgerLine
from fctncalling.lab.forge.forged_entry import ForgedEntry
from fctncalling.lab.forge.official_guard import digest


class ForgeReport(NamedTuple):
    """Report on a written file: for `--json`, and as text."""

    record: dict[str, Any]
    text: str


class TaskSource(ABC):
    """Source of a file's tasks."""

    weights: Mapping[str, float]
    """Category -> its share of a file, in the order in which a file holds them."""
    max_attempts = 200
    notice = ""
    """Line for the user, printed before the first task is drawn."""

    @abstractmethod
    def draw(self, category: str, seed: int, index: int, attempt: int) -> ForgedEntry:
        """Draw a proven task, determined by the arguments; raises ForgeFailure."""

    def reworded(self, drawn: ForgedEntry) -> ForgedEntry:
        """Return a drawn task as the file has it."""
        return drawn

    def fault(self, made: ForgedEntry) -> str | None:
        """Return why a task is thrown away, if it is."""
        return None

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return the settings that decide on the tasks, as the ledger holds them."""

    @abstractmethod
    def run_dry(self, category: str, index: int) -> str:
        """Return the message of a category that gives no further task."""

    @abstractmethod
    def report(self, files: ForgeFiles, *, is_new: bool) -> ForgeReport:
        """Return the report on a written file; not `is_new`: it was there already."""


class ForgeFailure(RuntimeError):
    """A category that has no further task to give."""


def apportion_tasks(num_tasks: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Return a number for each category, by its weight."""
    total = sum(weights.values())
    exact = {name: num_tasks * weight / total for name, weight in weights.items()}
    counts = {name: int(number) for name, number in exact.items()}
    by_rest = sorted(counts, key=lambda name: counts[name] - exact[name])
    for name in by_rest[: num_tasks - sum(counts.values())]:
        counts[name] += 1
    return counts


AT_ONCE = 64  # tasks that a process of several may be ahead
REPEATED = "has the user texts of another task of the file"


class ForgeRun:
    """Run that makes the tasks of a file in their order, no user texts twice."""

    def __init__(
        self, source: TaskSource, num_tasks: int, seed: int, categories: tuple[str, ...]
    ) -> None:
        self.num_tasks = num_tasks
        self._source = source
        self._seed = seed
        self._categories = categories
        self._seen = set[int]()

    def counts(self) -> dict[str, int]:
        """Return how many tasks each category gets: by its share, to the number asked for."""
        weights = {name: self._source.weights[name] for name in self._categories}
        return apportion_tasks(self.num_tasks, weights)

    def record(self) -> dict[str, Any]:
        """Return the settings as the ledger holds them."""
        settings = {"num_tasks": self.num_tasks, "seed": self._seed}
        return {**settings, "categories": list(self._categories), **self._source.record()}

    def tasks(self, jobs: int = 1) -> Iterator[tuple[dict[str, Any], LedgerLine]]:
        """Yield (entry, ledger line) of each task, the same for any number of processes.

        Raises ForgeFailure where a category runs dry.
        """
        if self._source.notice:
            print(self._source.notice, file=sys.stderr)
        places = ((name, at) for name, count in self.counts().items() for at in range(count))
        if jobs == 1:
            for category, index in places:
                yield self._task(category, index, self.draw(category, index))
            return
        fork = multiprocessing.get_context("fork")
        with fork.Pool(jobs, _begin_drawing, (self,)) as pool:
            while some := list(islice(places, AT_ONCE * jobs)):
                drawn = pool.imap(_first_draw, some, chunksize=AT_ONCE // 8)
                for (category, index), first in zip(some, drawn, strict=True):
                    yield self._task(category, index, first)

    def draw(self, category: str, index: int, attempt: int = 0) -> ForgedEntry:
        """Draw a proven task."""
        return self._source.draw(category, self._seed, index, attempt)

    def _task(
        self, category: str, index: int, first: ForgedEntry
    ) -> tuple[dict[str, Any], LedgerLine]:
        thrown: Counter[str] = Counter()
        for attempt in range(self._source.max_attempts):
            drawn = self.draw(category, index, attempt) if attempt else first
            made = self._source.reworded(drawn)
            thrown.update(made.thrown_away)
            texts = digest("\n".join(made.user_texts))
            fault = REPEATED if texts in self._seen else self._source.fault(made)
            if fault is None:
                self._seen.add(texts)
                entry = {**made.entry, "difficulty": made.difficulty}
                line = json.dumps(entry, ensure_ascii=False)
                sha = f"{digest(line):016x}"
                return entry, LedgerLine(
                    entry["id"], attempt, texts, sha, made.difficulty, made.provenance, thrown
                )
            thrown[fault] += 1
        raise ForgeFailure(self._source.run_dry(category, index))


_drawing: list[ForgeRun] = []  # of a process that draws


def _begin_drawing(run: ForgeRun) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    _drawing[:] = [run]


def _first_draw(place: tuple[str, int]) -> ForgedEntry:
    return _drawing[0].draw(*place)
