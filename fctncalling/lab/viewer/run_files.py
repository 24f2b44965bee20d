"""LoadedRun: the files of a training run, of `run`'s output or of text histories, as recorded.

A run may be going on or have crashed: a half written last line is left out, absent files are empty.
A line that is no record of its kind is noted and left out.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

from fctncalling.data.token_file import TokenFile, TokenFileError, read_token_file, token_file_path
from fctncalling.lab.viewer.parquet_lines import parquet_lines

Record = dict[str, Any]
MAX_LINE = 1 << 26
"""Characters of the longest line that is read."""
MAX_RUNS = 40
"""Runs of a folder that are compared."""
MAX_TOLD = 5
"""Lines of a file that are named when they are left out."""
_EPISODE_FILE = re.compile(r"(train|greedy|sampled)_(\d+|base)\.jsonl$")
_BASE = -1
"""Stands for the update of the base model's evaluation, before a supervised stage."""


class ExpectedType(NamedTuple):
    """Type that a field must have, in words and as a test."""

    words: str
    test: Callable[[Any], bool]
    required: bool = False  # else it may be absent or null
    fields: Mapping[str, ExpectedType] | None = None  # of each object of a list


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a number that a page can show."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 1e15)


def is_list_of(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return the test of a list by that of its members."""
    return lambda value: isinstance(value, list) and all(map(test, value))


def _is_span(value: Any) -> bool:
    return is_list_of(lambda each: isinstance(each, int))(value) and len(value) == 2


def _is_verdict(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("error_type"), str | None):
        return False
    return is_list_of(lambda each: isinstance(each, bool))(value.get("per_turn") or [])


_TEXT = ExpectedType("a text", lambda value: isinstance(value, str))
_NUMBER = ExpectedType("a number", is_number)
_NUMBERS = ExpectedType(
    "an object of numbers",
    lambda value: isinstance(value, dict) and all(map(is_number, value.values())),
)
_INDEX = ExpectedType("a number from 0", lambda value: type(value) is int and 0 <= value < 1e6)
_LIST = ExpectedType("a list", lambda value: isinstance(value, list))
_OBJECTS = ExpectedType("a list of objects", is_list_of(lambda each: isinstance(each, dict)))
_CALLS = ExpectedType("a list of calls", is_list_of(lambda each: isinstance(each, str | dict)))
_INTEGERS = ExpectedType("a list of integers", is_list_of(lambda each: type(each) is int))
_STEP_TYPES = {
    "turn": _INDEX,
    "calls": _CALLS,
    "executed": _CALLS,
    "results": _LIST,
    "reward": _NUMBER,
    "messages": _OBJECTS,
    "role": _TEXT,
    "credit": _NUMBERS,
}


EPISODE_TYPES = {
    "steps": _OBJECTS._replace(required=True, fields=_STEP_TYPES),
    "played": _OBJECTS._replace(fields=_STEP_TYPES),
    "verdict": ExpectedType("an object with a list of turns", _is_verdict),
    **dict.fromkeys(("return", "progress", "num_actions_truncated"), _NUMBER),
    **dict.fromkeys(("error_type", "strict_error_type", "strict_message"), _TEXT),
    **dict.fromkeys(("invalid_reason", "not_learned_from", "category"), _TEXT),
    "messages": _OBJECTS,
    "tokens": _OBJECTS._replace(fields={"shared": _INDEX, "ids": _INTEGERS, "runs": _INTEGERS}),
}
"""Fields of an episode that a page takes apart."""
HISTORY_TYPES = {
    "text_spans": ExpectedType("a list of (first, end)", is_list_of(_is_span), required=True),
    "system_spans": _LIST,
    "reward": _NUMBER,
}
ALARM_TYPES = {"episodes": _LIST}


def type_fault(record: Record, types: Mapping[str, ExpectedType]) -> str:
    """Return which field is of another type than expected; "" if none is."""
    for name, expected in types.items():
        value = record.get(name)
        if value is None and not expected.required:
            continue
        if not expected.test(value):
            got = json.dumps(value)[:60] if name in record else "no such field"
            return f'field "{name}": expected {expected.words}, got {got}'
        for index, each in enumerate(value or () if expected.fields else ()):
            if fault := type_fault(each, expected.fields or {}):
                return fault.replace('"', f'"{name}[{index}].', 1)
    return ""


class ViewError(ValueError):
    """Error of unusable input; the message names the file and the expected kind."""


@dataclass(frozen=True)
class LoadedRun:
    """Run that a page is made of: one update's episodes, with settings and metrics."""

    path: Path  # as given
    kind: str  # "training", "answers" (output of `run`), "histories" (of text), "verl", "trl"
    episodes: Iterable[Record]  # in the order of their file, each with its "line", from 1
    episodes_file: Path
    update: int | None = None  # of training episodes
    played: str = ""  # how the held-out tasks were, where the episodes are an evaluation's
    tokens: TokenFile | None = None
    config: Record = field(default_factory=dict)
    metrics: list[Record] = field(default_factory=list)
    alarms: list[Record] = field(default_factory=list)
    evaluation: Record = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    checks: list[Record] = field(default_factory=list)  # of a file without tokens

    @property
    def folder(self) -> Path | None:
        """The run's folder; None for a single file."""
        return self.path if self.kind == "training" else None


def load_run(path: Path, update: int | None = None) -> LoadedRun:
    """Return a run's files: of `update`, by default the last one with a token file.

    Raises ViewError for what holds no episodes, or none of that update.
    """
    if not path.exists():
        raise ViewError(f"{path}: there is no such file or folder")
    return _training(path, update) if path.is_dir() else _file(path, update)


class EpisodeLines:
    """Records of a file, read anew at each pass; invalid lines are noted."""

    def __init__(self, path: Path, notes: list[str], kind: str = "answers") -> None:
        self._path = path
        self._notes = notes
        self._kind = kind

    def __iter__(self) -> Iterator[Record]:
        self._notes[:] = [note for note in self._notes if not note.startswith(self._path.name)]
        if self._kind == "histories":
            return map(_history_episode, read_lines(self._path, self._notes, HISTORY_TYPES))
        return read_lines(self._path, self._notes, EPISODE_TYPES)


def _history_episode(record: Record) -> Record:
    """Return a TextHistory as an episode of the log: its first segment is the query."""
    steps: list[Record] = []
    opening: list[Record] = []
    for span, system in zip(record["text_spans"], record.get("system_spans") or (), strict=False):
        text = str(record.get("text", ""))[span[0] : span[1]]
        if not system:
            steps.append({"turn": 0, "text": text, "results": [], "calls": [], "executed": []})
        elif steps:
            steps[-1]["results"].append(text)
        else:
            opening.append({"role": "user", "content": text})
    reward = record.get("reward")
    earned = float(reward) if reward is not None and math.isfinite(reward) else None
    if steps:
        steps[-1]["reward"] = earned
    query = opening[0]["content"] if opening else ""
    truncated, invalid = bool(record.get("truncated")), bool(record.get("invalid"))
    return {
        "line": record["line"],
        "task_id": query[:60],
        "seed": zlib.crc32(query.encode("utf-8", "replace")),  # other queries, other groups
        "category": "text history",
        "messages": opening,
        "steps": steps,
        "success": None,
        "return": earned,
        "terminated": bool(record.get("completed")) and not truncated,
        "truncated": truncated,
        "invalid": invalid,
        "invalid_reason": "infrastructure failed" if invalid else None,
    }


def read_lines(
    path: Path, notes: list[str], types: Mapping[str, ExpectedType] | None = None
) -> Iterator[Record]:
    """Yield the JSON objects of a file, each with its "line", that have the `types`.

    Every other line is left out, and noted; so is one that is only half written. Raises ViewError
    for a file that cannot be read.
    """
    told = 0
    broken = ""  # of the line before, which is the last one if none follows
    number = 0
    for number, text in _numbered_lines(path):
        if broken:
            told += 1
            _note(notes, told, broken)
        found, broken = _record(text, types or {})
        if broken:
            broken = f"{path.name}: line {number} is left out: {broken}"
        else:
            yield {**found, "line": number}
    if "expected a JSON object, but " in broken:
        broken = f"{path.name}: line {number} is only half written, and left out"
    if broken:
        told += 1
        _note(notes, told, broken)
    if told > MAX_TOLD:
        notes.append(f"{path.name}: {told - MAX_TOLD} more lines are left out")


def _note(notes: list[str], told: int, text: str) -> None:
    if told <= MAX_TOLD:
        notes.append(text)


def _record(text: str, types: Mapping[str, ExpectedType]) -> tuple[Record, str]:
    """Return the object in a line, and its fault."""
    if len(text) > MAX_LINE:
        return {}, f"it has more than {MAX_LINE:,} characters"
    try:
        record = json.loads(text)
        if not isinstance(record, dict):
            return {}, f"expected a JSON object, got {text.strip()[:40]}"
        return record, type_fault(record, types)
    except (ValueError, RecursionError) as error:
        return {}, f"expected a JSON object, but {error}"


def _numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each line that is not blank with its number; of an endless one, more than MAX_LINE."""
    if path.exists() and not path.is_file():  # a device has no end
        raise ViewError(f"{path}: expected a file")
    try:
        if path.suffix == ".parquet":
            opened: AbstractContextManager[TextIO] = parquet_lines(path)
        else:
            unpack = gzip.open if path.suffix == ".gz" else open
            opened = cast(TextIO, unpack(path, "rt", encoding="utf-8-sig"))  # a mark is no text
        with opened as file:
            number = 0
            while text := file.readline(MAX_LINE + 1):
                number += 1
                while len(text) > MAX_LINE and (rest := file.readline(MAX_LINE)):
                    if rest[-1] == "\n":
                        break
                if text.strip():
                    yield number, text
    except (OSError, EOFError, UnicodeError, zlib.error) as error:
        raise ViewError(f"{path}: cannot be read ({error})") from None


def episode_files(folder: Path) -> list[tuple[str, int, Path]]:
    """Return (phase, update, path) of a run's episode files, by update and phase.

    The update of the base model's is -1.
    """
    found = []
    for path in (folder / "episodes").glob("*.jsonl"):
        if match := _EPISODE_FILE.match(path.name):
            found.append((match[1], _BASE if match[2] == "base" else int(match[2]), path))
    return sorted(found, key=lambda each: (each[1], each[0]))


def _training(folder: Path, update: int | None) -> LoadedRun:
    files = episode_files(folder)
    if not files:
        raise ViewError(
            f"{folder}: no episodes/*.jsonl in it: expected the folder of a training run "
            "(--log_episodes_interval 1 writes the episodes of every update)"
        )
    notes: list[str] = []
    path, number = _chosen(folder, files, update)
    played = _evaluation_words(path, files)
    tokens = _tokens(folder, path, number, notes)
    _require_episode(path, "training")
    if graded := sorted((folder / "credit").glob("*.jsonl")):
        notes.append(f"graded against branched truth: view {graded[-1]}")
    is_over = (folder / "evaluation.json").is_file()
    if not is_over:
        notes.append("the run is going on, or was ended before its last evaluation")
    return LoadedRun(
        path=folder,
        kind="training",
        episodes=EpisodeLines(path, notes),
        episodes_file=path,
        update=None if played else number,
        played=played,
        tokens=tokens,
        config=_json_object(folder / "config.json", notes),
        evaluation=_json_object(folder / "evaluation.json", notes) if is_over else {},
        metrics=_optional_lines(folder / "metrics.jsonl", notes),
        alarms=_optional_lines(folder / "alarms.jsonl", notes, ALARM_TYPES),
        notes=notes,
    )


def _chosen(
    folder: Path, files: list[tuple[str, int, Path]], update: int | None
) -> tuple[Path, int]:
    """Return the episode file to show and its update: of training, else as the headline counts."""
    training = [(number, path) for phase, number, path in files if phase == "train"]
    greedy = [(number, path) for phase, number, path in files if phase == "greedy"]
    found = training or greedy or [(number, path) for _, number, path in files]
    if update is not None:
        found = [each for each in found if each[0] == update]
        if not found:
            known = ", ".join(str(number) for number, _ in training) or "none"
            raise ViewError(f"--update {update}: no episodes of it in {folder}; there are: {known}")
    with_tokens = [each for each in found if token_file_path(folder, each[0]).is_file()]
    number, path = (with_tokens or found)[-1]
    return path, number


def _evaluation_words(path: Path, files: list[tuple[str, int, Path]]) -> str:
    """Return how an evaluation was played, such as "greedy, base model"; "" for training episodes.

    Before the first update plays the base model, or behind its evaluation the supervised one.
    """
    [(phase, number)] = [(phase, number) for phase, number, each in files if each == path]
    if phase == "train":
        return ""
    is_base = number == _BASE or not any(number == _BASE for _, number, _ in files)
    model = "base model" if is_base else "supervised model"
    return f"{phase}, {f'after update {number}' if number > 0 else model}"


def _tokens(folder: Path, episodes: Path, update: int, notes: list[str]) -> TokenFile | None:
    path = token_file_path(folder, update)
    if not episodes.name.startswith("train") or not path.is_file():
        notes.append(f"no token file of {episodes.name}: actions are shown as text alone")
        return None
    try:
        return read_token_file(path)
    except TokenFileError as error:
        notes.append(f"{error}: actions are shown as text alone")
        return None


def _file(path: Path, update: int | None) -> LoadedRun:
    if update is not None:
        raise ViewError(f"--update {update}: {path} is a file; updates are those of a run's folder")
    notes: list[str] = []
    first = next(read_lines(path, []), {})
    kind = "histories" if "text_spans" in first else "answers"
    _require_episode(path, kind)
    config = path.resolve().parent.parent / "config.json"
    found = _json_object(config, []) if path.resolve().parent.name in ("episodes", "credit") else {}
    lines = EpisodeLines(path, notes, kind)
    return LoadedRun(path, kind, lines, path, config=found, notes=notes)


def _require_episode(path: Path, kind: str) -> None:
    """Raise ViewError, with the first fault, for a file without an episode."""
    notes: list[str] = []
    if next(iter(EpisodeLines(path, notes, kind)), None) is None:
        hint = "expected the output of `run`, a run's episodes or text histories"
        raise ViewError("; ".join([f"{path}: there is no episode in it", *notes[:1], hint]))


def _json_object(path: Path, notes: list[str]) -> Record:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        notes.append(f"{path.name} cannot be read ({error})")
        return {}
    return found if isinstance(found, dict) else {}


def _optional_lines(
    path: Path, notes: list[str], types: Mapping[str, ExpectedType] | None = None
) -> list[Record]:
    return list(read_lines(path, notes, types)) if path.is_file() else []


def runs_below(path: Path) -> list[Path]:
    """Return the runs of a folder of runs, the newest first; a run's own path for itself."""
    if not path.is_dir() or (path / "episodes").is_dir():
        return [path]
    found = {each.parent.parent for each in path.glob("**/episodes/*.jsonl")}
    newest = sorted(found, key=lambda run: (-(run / "episodes").stat().st_mtime, str(run)))
    return newest[:MAX_RUNS] or [path]
