"""A forge run: tasks one by one, none like an official one, none like another of the file."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from fctncalling.cli.shared.jsonl_records import with_progress_bar
from fctncalling.data.bfcl import embedded_path
from fctncalling.data.categories import WITHOUT_ANSWER, category_of_id
from fctncalling.lab.forge import multi_turn, single_turn
from fctncalling.lab.forge.clarify_entries import clarify_entry
from fctncalling.lab.forge.forged_entry import ForgedEntry, entry_task
from fctncalling.lab.forge.multi_turn.dials import CRITICAL_DIALS, HISTORY_DIALS
from fctncalling.lab.forge.multi_turn_entry import multi_turn_entry
from fctncalling.lab.forge.official_guard import OfficialGuard, digest, expected_calls_text

Maker = Callable[..., ForgedEntry]
"""(category, seed, index, attempt) -> task: nothing else decides but `dials` and `apis`."""


DIALS = {"history": HISTORY_DIALS, "critical": CRITICAL_DIALS}
"""`--dials` -> what multi-turn plans are drawn by, where it is not like BFCL's own."""


class CategoryMaker(NamedTuple):
    """Category of a file: who makes its tasks, and how many."""

    make: Maker
    weight: float


_SINGLE_TURN_WEIGHTS = dict.fromkeys(
    "live_simple live_multiple live_relevance simple_java simple_javascript".split(), 3.0
)
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
    name: CategoryMaker(multi_turn_entry, _MULTI_TURN_WEIGHTS[name])
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


AT_ONCE = 64  # tasks that a process of several may be ahead
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

    def tasks(self, jobs: int = 1) -> Iterator[tuple[dict[str, Any], LedgerLine]]:
        """Yield (entry, ledger line) of each task, the same for any number of processes.

        Raises ForgeFailure where a category runs dry.
        """
        places = ((name, index) for name, count in self._counts.items() for index in range(count))
        if jobs == 1:
            for category, index in places:
                yield self._task(category, index, self.draw(category, index, 0))
            return
        fork = multiprocessing.get_context("fork")
        with fork.Pool(jobs, _begin_drawing, (self,)) as pool:
            while some := list(islice(places, AT_ONCE * jobs)):
                drawn = pool.imap(_first_draw, some, chunksize=AT_ONCE // 8)
                for (category, index), first in zip(some, drawn, strict=True):
                    yield self._task(category, index, first)

    def _task(
        self, category: str, index: int, first: ForgedEntry
    ) -> tuple[dict[str, Any], LedgerLine]:
        thrown: Counter[str] = Counter()
        for attempt in range(self.max_attempts):
            drawn = self.draw(category, index, attempt) if attempt else first
            made = self._reworded(drawn)
            thrown.update(made.thrown_away)
            texts = digest("\n".join(made.user_texts))
            fault = REPEATED if texts in self._seen else self._fault(made)
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
    def draw(self, category: str, index: int, attempt: int) -> ForgedEntry:
        """Draw a proven task, determined by seed and arguments; raises ForgeFailure."""

    def _reworded(self, drawn: ForgedEntry) -> ForgedEntry:
        """Return a drawn task as the file has it."""
        return drawn

    def _fault(self, made: ForgedEntry) -> str | None:
        """Return why a task is thrown away, if it is."""
        return None

    @abstractmethod
    def _run_dry(self, category: str, index: int) -> str:
        """Return the message of a category that gives no further task."""


_drawing: list[BaseForgeRun] = []  # of a process that draws


def _begin_drawing(run: BaseForgeRun) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    _drawing[:] = [run]


def _first_draw(place: tuple[str, int]) -> ForgedEntry:
    return _drawing[0].draw(*place, 0)


class ForgeRun(BaseForgeRun):
    """Run that makes a file's tasks, none like an official one."""

    def __init__(self, settings: ForgeSettings, guard: OfficialGuard) -> None:
        super().__init__(settings.counts(), settings.seed)
        self._dials = settings.dials
        self._apis = settings.apis
        self._guard = guard

    def draw(self, category: str, index: int, attempt: int) -> ForgedEntry:
        options = {"dials": DIALS.get(self._dials), "apis": self._apis}
        chosen = options if category in multi_turn.CATEGORIES else {}
        return FORGED_CATEGORIES[category].make(category, self._seed, index, attempt, **chosen)

    def _run_dry(self, category: str, index: int) -> str:
        return (
            f"{category}: no new task after {self.max_attempts} attempts at number {index}; "
            f"expected at most {index} tasks of it for seed {self._seed}"
        )

    def _fault(self, made: ForgedEntry) -> str | None:
        if not self._guard.files:
            return None
        task = entry_task(made.entry)
        sequence = None if task.ground_truth is None else expected_calls_text(task)
        return self._guard.fault(made.user_texts, sequence)


class OutputConflict(ValueError):
    """An output that is there already, of other settings or of another maker, or being made."""


class ForgeFiles:
    """Task file (or folder) and ledger of one run.

    They are written under their names with `.part` behind, and named when whole. The ledger's first
    line holds the settings, the last one the totals; each line between tells of one task. The same
    settings give the same bytes, so a run that was interrupted is made again.
    """

    def __init__(self, output: Path, settings: Mapping[str, Any]) -> None:
        self.output = output
        self.ledger = output.with_name(f"{output.name}.ledger.jsonl")
        self._settings = settings
        self._part = output.with_name(f"{output.name}.part")
        self._ledger_part = self.ledger.with_name(f"{self.ledger.name}.part")
        self._files: dict[Path, IO[str]] = {}
        self.thrown_away: Counter[str] = Counter()
        self.num_tasks = 0

    def is_finished(self) -> bool:
        """Whether the output is there, made under the same settings.

        Raises OutputConflict for one that is not ours, or of other settings.
        """
        if not self.output.exists():
            return False
        try:
            with self.ledger.open(encoding="utf-8") as file:
                found = _object(file.readline())
        except (OSError, ValueError):
            raise OutputConflict(
                f"{self.output}: is there already and no ledger says how it was forged: expected "
                "a new name as --output"
            ) from None
        wanted = json.loads(json.dumps(self._settings))
        for key, value in wanted.items():
            if found.get(key) != value:
                raise OutputConflict(
                    f"{self.output}: is there already, forged with {key} {_shown(found.get(key))}, "
                    f"not {_shown(value)}: pass the same flags, or name another --output"
                )
        return True

    def summary(self) -> dict[str, Any]:
        """Return the settings and the totals of a finished run, as the ledger holds them."""
        with self.ledger.open(encoding="utf-8") as ledger:
            settings, last = _first_and_last(ledger)
        try:
            totals = _object(last)["totals"]
            if not isinstance(totals["thrown_away"], dict):
                raise TypeError
            return {"settings": _object(settings), "totals": totals}
        except (ValueError, KeyError, TypeError):
            raise OutputConflict(
                f"{self.ledger}: expected the totals in its last line, found {last[:40]!r}: it was "
                "cut or changed; name another --output"
            ) from None

    def __enter__(self) -> Self:
        """Begin the files. Raises OutputConflict where another run writes them, or none can."""
        try:
            self.output.parent.mkdir(parents=True, exist_ok=True)
            self._files[self._ledger_part] = self._locked_ledger()
            if self._part.is_dir():  # what an interrupted run left
                shutil.rmtree(self._part)
            self._part.unlink(missing_ok=True)
        except OSError as error:
            raise OutputConflict(
                f"--output {self.output}: cannot be written ({error.strerror}): expected a place "
                "where files can be made"
            ) from None
        self._write(self._ledger_part, self._settings)
        return self

    def _locked_ledger(self) -> IO[str]:
        """Return the empty ledger, which another run cannot have before this one ends."""
        file = self._ledger_part.open("a", encoding="utf-8")
        is_ours = _has_locked(file) and _is_at(file, self._ledger_part)
        if not is_ours or self.output.exists():
            file.close()
            raise OutputConflict(
                f"{self.output}: another forge run is writing it: wait for its end, or name "
                "another --output"
            )
        file.truncate(0)
        return file

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def write(self, entry: Mapping[str, Any], line: LedgerLine) -> None:
        """Append a task."""
        for name, text in self._texts(entry):
            self._write(self._part / name if name else self._part, text)
        self._write(self._ledger_part, line.record())
        self.num_tasks += 1
        self.thrown_away.update(line.thrown_away)

    def finish(self) -> None:
        """Write the totals, and give the files their names."""
        if self._settings.get("layout") == "bfcl" and any(
            name.startswith("multi_turn") for name in self._settings["categories"]
        ):
            folder = embedded_path("multi_turn_func_doc")
            shutil.copytree(folder, self._part / folder.name, dirs_exist_ok=True)
        totals = {"tasks": self.num_tasks, "thrown_away": dict(sorted(self.thrown_away.items()))}
        self._write(self._ledger_part, {"totals": totals})
        for file in self._files.values():
            file.flush()
        self._ledger_part.replace(self.ledger)
        self._part.replace(self.output)

    def _texts(self, entry: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield (file name below the folder, object) of what an entry writes."""
        if self._settings.get("layout") != "bfcl":
            yield "", entry
            return
        rest = {key: value for key, value in entry.items() if key != "ground_truth"}
        category = category_of_id(entry["id"])
        name = f"BFCL_v4_{category}.json"
        yield name, rest
        if category not in WITHOUT_ANSWER:
            truth = {"id": entry["id"], "ground_truth": entry["ground_truth"]}
            yield f"possible_answer/{name}", truth

    def _write(self, path: Path, value: Mapping[str, Any]) -> None:
        if path not in self._files:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[path] = path.open("a", encoding="utf-8")
        self._files[path].write(json.dumps(value, ensure_ascii=False) + "\n")


def write_tasks(
    files: ForgeFiles, tasks: Iterable[tuple[dict[str, Any], LedgerLine]], number: int
) -> bool:
    """Write tasks and their ledger; return False if they already exist."""
    if files.is_finished():
        return False
    with files:
        for entry, line in with_progress_bar(tasks, "forging", "task", number):
            files.write(entry, line)
        files.finish()
    return True


def _has_locked(file: IO[str]) -> bool:
    """Whether a file could be locked, without waiting; True where the system knows no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one of a path: a run that ends gives its own a new name."""
    return path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())


def _object(text: str) -> dict[str, Any]:
    """Return a JSON object. Raises ValueError for another text."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("is no object")
    return value


def _first_and_last(lines: Iterable[str]) -> tuple[str, str]:
    first = last = ""
    for last in lines:
        first = first or last
    return first, last


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"{len(value)} files"
    return "none" if value is None else json.dumps(value)
