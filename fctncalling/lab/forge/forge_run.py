"""Runs that make the tasks of a file, no user texts twice, and write them whole or not at all."""

from __future__ import annotations

import json
import multiprocessing
import re
import shutil
import signal
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from fctncalling.algorithms.run.run_lock import RunLockedError, lock_for_file
from fctncalling.cli.shared.jsonl_records import with_progress_bar
from fctncalling.data.bfcl import embedded_path
from fctncalling.data.categories import WITHOUT_ANSWER, category_of_id
from fctncalling.lab.forge.forged_entry import ForgedEntry
from fctncalling.lab.forge.official_guard import digest


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
        """Begin the files. Raises OutputConflict if they are in use or cannot be written."""
        try:
            self.output.parent.mkdir(parents=True, exist_ok=True)
            self._lock = lock_for_file(self.output)
            if self.is_finished():
                self._lock.release(remove=True)
                raise OutputConflict(f"{self.output}: another forge run has just written it")
            self._ledger_part.unlink(missing_ok=True)
            if self._part.is_dir():  # what an interrupted run left
                shutil.rmtree(self._part)
            self._part.unlink(missing_ok=True)
        except RunLockedError as error:
            raise OutputConflict(str(error)) from None
        except OSError as error:
            raise OutputConflict(
                f"--output {self.output}: cannot be written ({error.strerror}): expected a place "
                "where files can be made"
            ) from None
        self._write(self._ledger_part, self._settings)
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._lock.release(remove=True)

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
        """Yield (file name below the folder, object) for each object that an entry writes."""
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
        """Return a drawn task in the words of the file."""
        return drawn

    def fault(self, made: ForgedEntry) -> str | None:
        """Return why a task is thrown away, if so."""
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
    """A task that cannot be made."""


RAN_DRY = 3  # exit code where fewer tasks could be made


class NoFurtherTask(ForgeFailure):
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
OBJECT_SAID = "says an object as a program writes it"
_OBJECT = re.compile(
    r"\b[A-Z]\w*\(\w+=['\"\d\[{(]|<[\w.]+ object at 0x|\[object \w+\]|\{'[^'\n]*': |\ue010"
)
_NOTHING = re.compile(r"\b(?:NaN|nan)\b|(?<!^)(?<![.!?] )\bNone\b(?! of\b)", re.MULTILINE)
"""What programs call nothing, but for the English word at the start of a sentence."""


def text_fault(texts: Iterable[str], values: Any = None) -> str | None:
    """Return why a user text cannot be a person's; None if it can.

    `values`: of the task; a word such as None is right where it is one of them.
    """
    for text in texts:
        nothing = _NOTHING.search(text)
        if _OBJECT.search(text) or (nothing and not _is_value(nothing[0], values)):
            return OBJECT_SAID
    return None


def _is_value(word: str, values: Any) -> bool:
    written = json.dumps(values, default=str)
    return f'"{word}"' in written or f"'{word}'" in written


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

        Raises NoFurtherTask where a category runs dry.
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
            fault = text_fault(made.user_texts, made.entry) or self._source.fault(made)
            fault = REPEATED if texts in self._seen else fault
            if fault is None:
                self._seen.add(texts)
                entry = {**made.entry, "difficulty": made.difficulty}
                line = json.dumps(entry, ensure_ascii=False)
                sha = f"{digest(line):016x}"
                return entry, LedgerLine(
                    entry["id"], attempt, texts, sha, made.difficulty, made.provenance, thrown
                )
            thrown[fault] += 1
        raise NoFurtherTask(self._source.run_dry(category, index))


_drawing: list[ForgeRun] = []  # of a process that draws


def _begin_drawing(run: ForgeRun) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    _drawing[:] = [run]


def _first_draw(place: tuple[str, int]) -> ForgedEntry:
    return _drawing[0].draw(*place)
