"""A forge run: tasks one by one, none like an official one, none like another of the file."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from fctncalling.data.types import FunctionDoc, Task
from fctncalling.lab.forge import multi_turn, single_turn
from fctncalling.lab.forge.clarify import clarify_entry
from fctncalling.lab.forge.forged_entry import ForgedEntry
from fctncalling.lab.forge.multi_turn.dials import CRITICAL_DIALS, HISTORY_DIALS
from fctncalling.lab.forge.multi_turn_entry import multi_turn_entry
from fctncalling.lab.forge.official_guard import OfficialGuard, digest, expected_calls_text

Maker = Callable[[str, int, int, int], ForgedEntry]
"""(category, seed, index, attempt) -> task: nothing else decides."""


DIALS = {"history": HISTORY_DIALS, "critical": CRITICAL_DIALS}
"""`--dials` -> what multi-turn plans are drawn by, where it is not like BFCL's own."""


class CategoryMaker(NamedTuple):
    """Category of a file: who makes its tasks, and how many."""

    make: Maker
    weight: float
    dialled: Mapping[str, Maker] = MappingProxyType({})  # --dials -> maker; others: as `make`


_SINGLE_TURN_WEIGHTS = {
    "live_simple": 3.0,
    "live_multiple": 3.0,
    "live_relevance": 3.0,
    "simple_java": 3.0,
    "simple_javascript": 3.0,
}
_MULTI_TURN_WEIGHTS = {
    "multi_turn_base": 26.0,
    "multi_turn_miss_func": 12.0,
    "multi_turn_miss_param": 12.0,
    "multi_turn_long_context": 6.0,
    "multi_turn_composite": 4.0,
}

FORGED_CATEGORIES: dict[str, CategoryMaker] = {
    name: CategoryMaker(single_turn.single_turn_entry, _SINGLE_TURN_WEIGHTS.get(name, 5.0))
    for name in single_turn.CATEGORIES
} | {
    name: CategoryMaker(
        multi_turn_entry,
        _MULTI_TURN_WEIGHTS[name],
        {word: partial(multi_turn_entry, dials=dials) for word, dials in DIALS.items()},
    )
    for name in multi_turn.CATEGORIES
}
FORGED_CATEGORIES["clarify"] = CategoryMaker(clarify_entry, 6.2)
"""Category -> maker and weight, in the order in which a file holds them. Of those of BFCL 60 of
100 tasks are multi-turn.
"""

BFCL_CATEGORIES = tuple(name for name in FORGED_CATEGORIES if name != "clarify")
"""Categories of BFCL, which are made where none is named."""

LONG_CONTEXT = ("multi_turn_long_context", "multi_turn_composite")
"""Categories whose tools load BFCL's long-context tables."""


VERSION = 3
"""Raised where the same seed gives other tasks than before."""


@dataclass(frozen=True)
class ForgeSettings:
    """The flags of a forge run, and the official files it guards against."""

    num_tasks: int
    seed: int
    categories: tuple[str, ...]
    dials: str = "official"  # or one of DIALS
    layout: str = "file"  # file, or bfcl: a folder as BFCL ships it
    official_files: Mapping[str, str] | None = None  # name -> SHA-256; None: none were there
    apis: tuple[str, ...] = ()  # classes that multi-turn tasks may involve; none named: all

    def counts(self) -> dict[str, int]:
        """Return how many tasks each category gets: by its share, to the number asked for."""
        weights = {name: FORGED_CATEGORIES[name].weight for name in self.categories}
        return apportion_tasks(self.num_tasks, weights)

    def record(self) -> dict[str, Any]:
        """Return the settings as the ledger holds them."""
        return {
            "forge_version": VERSION,
            "num_tasks": self.num_tasks,
            "seed": self.seed,
            "categories": list(self.categories),
            "dials": self.dials,
            "layout": self.layout,
            **({"apis": list(self.apis)} if self.apis else {}),
            "official_files": None if self.official_files is None else dict(self.official_files),
        }


def apportion_tasks(num_tasks: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Return a number for each category, by its weight."""
    total = sum(weights.values())
    exact = {name: num_tasks * weight / total for name, weight in weights.items()}
    counts = {name: int(number) for name, number in exact.items()}
    by_rest = sorted(counts, key=lambda name: counts[name] - exact[name])
    for name in by_rest[: num_tasks - sum(counts.values())]:
        counts[name] += 1
    return counts


REPEATED = "has the user texts of another task of the file"


class ForgeFailure(RuntimeError):
    """A category that has no further task to give."""


class LedgerLine(NamedTuple):
    """Line of the ledger on one task."""

    id: str
    attempt: int  # tasks thrown away in its place
    texts: int  # hash of its user texts
    sha: str  # hash of the entry
    difficulty: float
    provenance: dict[str, Any]
    thrown_away: dict[str, int]  # reason -> number

    def record(self) -> dict[str, Any]:
        """Return the line as the ledger holds it."""
        return {**self._asdict(), "texts": f"{self.texts:016x}"}


class BaseForgeRun(ABC):
    """Run that makes the tasks of a file in their order, no user texts twice."""

    max_attempts = 200

    def __init__(self, counts: Mapping[str, int], seed: int) -> None:
        self._counts = counts
        self._seed = seed
        self._seen = set[int]()

    def tasks(self) -> Iterator[tuple[dict[str, Any], LedgerLine]]:
        """Yield (entry, ledger line) of each task.

        Raises ForgeFailure where a category runs dry.
        """
        for category, count in self._counts.items():
            for index in range(count):
                yield self._task(category, index)

    def _task(self, category: str, index: int) -> tuple[dict[str, Any], LedgerLine]:
        thrown: Counter[str] = Counter()
        for attempt in range(self.max_attempts):
            made = self._made(category, index, attempt)
            thrown.update(made.thrown_away)
            texts = digest("\n".join(made.user_texts))
            fault = REPEATED if texts in self._seen else self._fault(category, made)
            if fault is None:
                self._seen.add(texts)
                entry = {**made.entry, "difficulty": made.difficulty}
                line = json.dumps(entry, ensure_ascii=False)
                sha = f"{digest(line):016x}"
                return entry, LedgerLine(
                    entry["id"], attempt, texts, sha, made.difficulty, made.provenance, thrown
                )
            thrown[fault] += 1
        raise ForgeFailure(self._run_dry(category, index))

    @abstractmethod
    def _made(self, category: str, index: int, attempt: int) -> ForgedEntry:
        """Return a task; raises ForgeFailure where there is none."""

    def _fault(self, category: str, made: ForgedEntry) -> str | None:
        """Return why a task is thrown away, if it is."""
        return None

    @abstractmethod
    def _run_dry(self, category: str, index: int) -> str:
        """Return the message of a category that gives no further task."""


class ForgeRun(BaseForgeRun):
    """Run that makes a file's tasks, none like an official one."""

    def __init__(self, settings: ForgeSettings, guard: OfficialGuard) -> None:
        super().__init__(settings.counts(), settings.seed)
        self._dials = settings.dials
        self._apis = settings.apis
        self._guard = guard

    def _made(self, category: str, index: int, attempt: int) -> ForgedEntry:
        forged = FORGED_CATEGORIES[category]
        make: Callable[..., ForgedEntry] = forged.dialled.get(self._dials, forged.make)
        if self._apis:
            make = partial(make, apis=self._apis)
        return make(category, self._seed, index, attempt)

    def _run_dry(self, category: str, index: int) -> str:
        return (
            f"{category}: no new task after {self.max_attempts} attempts at number {index}; "
            f"expected at most {index} tasks of it for seed {self._seed}"
        )

    def _fault(self, category: str, made: ForgedEntry) -> str | None:
        if not self._guard.files:
            return None
        docs = [
            FunctionDoc(doc["name"], doc["description"], doc["parameters"])
            for doc in made.entry.get("function", ())
            if isinstance(doc, dict)
        ]
        entry = made.entry
        task = Task(
            entry["id"],
            category,
            entry["question"],
            functions=docs,
            ground_truth=entry.get("ground_truth"),
            initial_config=entry.get("initial_config", {}),
            involved_classes=entry.get("involved_classes", ()),
        )
        sequence = None if entry.get("ground_truth") is None else expected_calls_text(task)
        return self._guard.fault(made.user_texts, sequence)
