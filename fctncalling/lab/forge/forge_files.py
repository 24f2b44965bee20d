"""The files of a forge run: appended task by task, taken up after an interruption, then named.

While it is written a file lies under its name with `.part` behind; it gets its own name when it is
whole, the ledger first. The ledger's first line holds the settings, the last one the totals; each
line between tells of one task.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

from fctncalling.data.bfcl import embedded_path
from fctncalling.data.categories import WITHOUT_ANSWER, category_of
from fctncalling.lab.forge.forge_run import LedgerLine

FLUSHED_TASKS = 100


class OutputConflict(ValueError):
    """An output that is there already, of other settings or of another maker, or being made."""


class FileSettings(Protocol):
    """What files need of the settings of a run."""

    @property
    def layout(self) -> str: ...
    @property
    def categories(self) -> tuple[str, ...]: ...
    def record(self) -> dict[str, Any]:
        """Return the settings as the ledger holds them."""
        ...


class ForgeFiles:
    """Task file (or folder) and ledger of one run."""

    def __init__(self, output: Path, settings: FileSettings) -> None:
        self.output = output
        self.ledger = output.with_name(f"{output.name}.ledger.jsonl")
        self._settings = settings
        self._part = output.with_name(f"{output.name}.part")
        self._ledger_part = self.ledger.with_name(f"{self.ledger.name}.part")
        self._lock: IO[str] | None = None
        self._files: dict[Path, IO[str]] = {}
        self.thrown_away: Counter[str] = Counter()
        self.num_tasks = 0

    def is_finished(self) -> bool:
        """Whether the output is there, made under the same settings.

        Raises OutputConflict for one that is not ours, or of other settings.
        """
        if self.output.exists():
            self._require_same(self.ledger)
            return True
        if self._is_unnamed():
            self._require_same(self.ledger)
        elif self._part.exists() or self._ledger_part.exists():
            self._require_same(self._ledger_part)
        return False

    def _is_unnamed(self) -> bool:
        """Whether a run was killed between its two renames: only the output lacks its name."""
        return self._part.exists() and self.ledger.exists() and not self._ledger_part.exists()

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

    def name_what_is_whole(self) -> None:
        """Give the output its name where a run was killed before it could."""
        if self._is_unnamed() and not self.is_finished():
            self._part.replace(self.output)

    def take_up(self) -> Iterator[int]:
        """Open the files and yield the text hash of each task that they hold already.

        Raises OutputConflict where the files cannot be written.
        """
        try:
            self._open()
        except OSError as error:
            raise self._unwritable(error) from None
        for line in self._usable_lines() if self.num_tasks else ():
            self.thrown_away.update(line["thrown_away"])
            yield int(line["texts"], 16)

    def _open(self) -> None:
        """Open the ledger behind the tasks that are held whole; what is left of others is cut."""
        held = Counter[str]()
        for line in self._usable_lines():
            self.num_tasks += 1
            held.update(self._names(line["id"]))
        self._cut(held)
        mode = "a" if self.num_tasks else "w"
        self._files[self._ledger_part] = self._ledger_part.open(mode, encoding="utf-8")
        if not self.num_tasks:
            self._write(self._ledger_part, self._settings.record())
            self._flush()

    def write(self, entry: Mapping[str, Any], line: LedgerLine) -> None:
        """Append a task."""
        for name, text in self._texts(entry):
            self._write(self._part / name if name else self._part, text)
        self._write(self._ledger_part, line.record())
        self.num_tasks += 1
        self.thrown_away.update(line.thrown_away)
        if self.num_tasks % FLUSHED_TASKS == 0:
            self._flush()

    def finish(self) -> None:
        """Write the totals, and give the files their names."""
        if self._settings.layout == "bfcl":
            self._add_function_docs()
        totals = {"tasks": self.num_tasks, "thrown_away": dict(sorted(self.thrown_away.items()))}
        self._write(self._ledger_part, {"totals": totals})
        self._close()
        self._ledger_part.replace(self.ledger)
        self._part.replace(self.output)

    def _add_function_docs(self) -> None:
        if any(name.startswith("multi_turn") for name in self._settings.categories):
            folder = embedded_path("multi_turn_func_doc")
            shutil.copytree(folder, self._part / folder.name, dirs_exist_ok=True)

    def __enter__(self) -> Self:
        """Lock the output. Raises OutputConflict where it is locked or cannot be written."""
        try:
            self.output.parent.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.output)
        except OSError as error:
            raise self._unwritable(error) from None
        return self

    def _unwritable(self, error: OSError) -> OutputConflict:
        return OutputConflict(
            f"--output {self.output}: cannot be written ({error.strerror}): expected a place "
            "where files can be made"
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        if self._lock is not None:
            with contextlib.suppress(OSError):
                _lock_path(self.output).unlink()
            self._lock.close()

    def _texts(self, entry: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield (file name below the folder, object) of what an entry writes."""
        if self._settings.layout == "file":
            yield "", entry
            return
        rest = {key: value for key, value in entry.items() if key != "ground_truth"}
        for name in self._names(entry["id"]):
            if name.startswith("possible_answer/"):
                yield name, {"id": entry["id"], "ground_truth": entry["ground_truth"]}
            else:
                yield name, rest

    def _names(self, task_id: str) -> list[str]:
        """Return the names of the files a task has a line in."""
        if self._settings.layout == "file":
            return [""]
        category = category_of(task_id)
        name = f"BFCL_v4_{category}.json"
        return [name] if category in WITHOUT_ANSWER else [name, f"possible_answer/{name}"]

    def _write(self, path: Path, value: Mapping[str, Any]) -> None:
        if path not in self._files:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[path] = path.open("a", encoding="utf-8")
        self._files[path].write(json.dumps(value, ensure_ascii=False) + "\n")

    def _flush(self) -> None:
        for file in self._files.values():
            file.flush()

    def _close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _require_same(self, ledger: Path) -> None:
        try:
            with ledger.open(encoding="utf-8") as file:
                found = _object(file.readline())
        except (OSError, ValueError):
            raise OutputConflict(
                f"{self.output}: is there already and no ledger says how it was forged: expected "
                "a new name as --output"
            ) from None
        wanted = json.loads(json.dumps(self._settings.record()))
        for key, value in wanted.items():
            if found.get(key) != value:
                raise OutputConflict(
                    f"{self.output}: is there already, forged with {key} "
                    f"{_shown(found.get(key))}, not {_shown(value)}: pass the same flags, or "
                    "name another --output"
                )

    def _usable_lines(self) -> Iterator[dict[str, Any]]:
        """Yield the ledger's lines of tasks that stand in the files whole."""
        if not self._ledger_part.exists():
            return
        held: dict[str, int] = {}
        with self._ledger_part.open(encoding="utf-8") as ledger:
            ledger.readline()
            for number, text in enumerate(ledger, 2):
                if not text.endswith("\n") or not text.startswith('{"id"'):
                    return
                line = self._task_line(number, text)
                for name in self._names(line["id"]):
                    if name not in held:
                        held[name] = _whole_lines(self._part / name if name else self._part)
                    held[name] -= 1
                    if held[name] < 0:
                        return
                yield line

    def _task_line(self, number: int, text: str) -> dict[str, Any]:
        """Return what a line of the ledger tells of a task. Raises OutputConflict."""
        try:
            line = _object(text)
            self._names(line["id"])
            int(line["texts"], 16)
            Counter(line["thrown_away"]).total()
        except (ValueError, KeyError, TypeError, AttributeError):
            raise OutputConflict(
                f"{self._ledger_part} line {number}: expected what a forge run tells of a task, "
                f"found {text[:40]!r}: it was changed; name another --output"
            ) from None
        return line

    def _cut(self, held: Counter[str]) -> None:
        """Cut the files to as many lines as they hold of whole tasks, to append the rest."""
        if self._part.is_dir():
            files = {str(path.relative_to(self._part)): path for path in self._part.rglob("*.json")}
        else:
            files = {"": self._part} if self._part.exists() else {}
        for name, path in files.items():
            _keep_lines(path, held[name])
        if self._ledger_part.exists():
            _keep_lines(self._ledger_part, self.num_tasks + 1 if self.num_tasks else 0)


def _lock_path(output: Path) -> Path:
    return output.with_name(f".{output.name}.lock")


def _locked(output: Path) -> IO[str]:
    """Return the open lock file of an output: the system lets go of it with the process.

    Raises OutputConflict where another run has it.
    """
    path = _lock_path(output)
    while True:
        file = path.open("a", encoding="utf-8")
        if not _has_locked(file):
            file.close()
            raise OutputConflict(
                f"{output}: another forge run is writing it: wait for its end, or name another "
                "--output"
            )
        # A run that ends takes its lock file away: what was opened before that locks nothing.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


def _has_locked(file: IO[str]) -> bool:
    """Whether a file could be locked, without waiting; True where the system knows no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN)
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


def _whole_lines(path: Path) -> int:
    if not path.exists():
        return 0
    with path.open("rb") as file:
        return sum(line.endswith(b"\n") for line in file)


def _keep_lines(path: Path, count: int) -> None:
    """Cut a file behind its first `count` lines."""
    with path.open("rb+") as file:
        for _ in range(count):
            file.readline()
        file.truncate(file.tell())


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"{len(value)} files"
    return "none" if value is None else json.dumps(value)
