"""LoadedRun: the files of a training run, of `run`'s output or of text histories, as recorded.

A run may be going on or have crashed: a half written last line is left out, absent files are empty.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fctncalling.data.token_file import (
    TokenFile,
    TokenFileError,
    read_token_file,
    token_file_path,
)

Record = dict[str, Any]
_EPISODE_FILE = re.compile(r"(train|greedy|sampled)_(\d+)\.jsonl$")


class ViewError(ValueError):
    """Input that no page can be made of; the message names the file and what was expected."""


@dataclass(frozen=True)
class LoadedRun:
    """What a page is made of: one update's episodes, and the run around them."""

    path: Path  # as given
    kind: str  # "training", "answers" (output of `run`) or "histories" (of a TextEnvironment)
    episodes: list[Record]  # in the order of their file, each with its "line", from 1
    episodes_file: Path
    update: int | None = None
    tokens: TokenFile | None = None
    config: Record = field(default_factory=dict)
    metrics: list[Record] = field(default_factory=list)
    alarms: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path | None:
        """The run's folder; None for a file on its own."""
        return self.path if self.kind == "training" else None

    @classmethod
    def of_histories(cls, path: Path = Path("histories.jsonl")) -> LoadedRun:
        """Return a run of text histories without its episodes."""
        return cls(path, "histories", [], path)


def load_run(path: Path, update: int | None = None) -> LoadedRun:
    """Return a run's files: of `update`, by default the last one with a token file.

    Raises ViewError for what holds no episodes, or none of that update.
    """
    if not path.exists():
        raise ViewError(f"{path}: there is no such file or folder")
    return _training(path, update) if path.is_dir() else _file(path, update)


def read_lines(path: Path, notes: list[str]) -> list[Record]:
    """Return the JSON objects of a file, each with its "line"; a broken last one is noted.

    Raises ViewError for another broken line.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            texts = file.read().split("\n")
    except (OSError, EOFError, UnicodeError) as error:
        raise ViewError(f"{path}: cannot be read ({error})") from None
    numbered = [(number, text) for number, text in enumerate(texts, 1) if text.strip()]
    records = []
    for number, text in numbered:
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            if number == numbered[-1][0]:
                notes.append(f"{path.name}: line {number} is only half written, and left out")
                continue
            raise ViewError(f"{path} line {number}: expected a JSON object, but {error}") from None
        if not isinstance(record, dict):
            raise ViewError(f"{path} line {number}: expected a JSON object, got {text[:40]}")
        records.append({**record, "line": number})
    return records


def episode_files(folder: Path) -> list[tuple[str, int, Path]]:
    """Return (phase, update, path) of a run's episode files, by update and phase."""
    found = []
    for path in (folder / "episodes").glob("*.jsonl"):
        if match := _EPISODE_FILE.match(path.name):
            found.append((match[1], int(match[2]), path))
    return sorted(found, key=lambda each: (each[1], each[0]))


def _training(folder: Path, update: int | None) -> LoadedRun:
    files = episode_files(folder)
    if not files:
        raise ViewError(_no_run(folder))
    notes: list[str] = []
    path, number = _chosen(folder, files, update)
    tokens = _tokens(folder, path, number, notes)
    episodes = read_lines(path, notes)
    if not episodes:
        raise ViewError(f"{path}: there is no episode in it")
    if not (folder / "evaluation.json").is_file():
        notes.append("the run is going on, or was ended before its last evaluation")
    return LoadedRun(
        path=folder,
        kind="training",
        episodes=episodes,
        episodes_file=path,
        update=number,
        tokens=tokens,
        config=_config(folder / "config.json", notes),
        metrics=_optional_lines(folder / "metrics.jsonl", notes),
        alarms=_optional_lines(folder / "alarms.jsonl", notes),
        notes=notes,
    )


def _chosen(
    folder: Path, files: list[tuple[str, int, Path]], update: int | None
) -> tuple[Path, int]:
    """Return the episode file to show and its update: training's own, if there is one."""
    training = [(number, path) for phase, number, path in files if phase == "train"]
    found = training or [(number, path) for _, number, path in files]
    if update is not None:
        found = [each for each in found if each[0] == update]
        if not found:
            known = ", ".join(str(number) for number, _ in training) or "none"
            raise ViewError(f"--update {update}: no episodes of it in {folder}; there are: {known}")
    with_tokens = [each for each in found if token_file_path(folder, each[0]).is_file()]
    number, path = (with_tokens or found)[-1]
    return path, number


def _tokens(folder: Path, episodes: Path, update: int, notes: list[str]) -> TokenFile | None:
    path = token_file_path(folder, update)
    if not episodes.name.startswith("train") or not path.is_file():
        notes.append(f"no token file of update {update}: actions are shown as text alone")
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
    records = read_lines(path, notes)
    kind = "histories" if records and "text_spans" in records[0] else "answers"
    needed = "text_spans" if kind == "histories" else "steps"
    for record in records:
        parts = record.get(needed)
        kinds = dict if needed == "steps" else list
        if not isinstance(parts, list) or not all(isinstance(each, kinds) for each in parts):
            raise ViewError(
                f'{path} line {record["line"]}: no field "{needed}": expected the output of `run`, '
                "a run's episodes or text histories"
            )
    if not records:
        raise ViewError(f"{path}: there is no episode in it")
    config = path.resolve().parent.parent / "config.json"
    found = _config(config, []) if path.resolve().parent.name == "episodes" else {}
    return LoadedRun(path, kind, records, path, config=found, notes=notes)


def _config(path: Path, notes: list[str]) -> Record:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        notes.append(f"{path.name} cannot be read ({error})")
        return {}
    return config if isinstance(config, dict) else {}


def _optional_lines(path: Path, notes: list[str]) -> list[Record]:
    return read_lines(path, notes) if path.is_file() else []


def _no_run(folder: Path) -> str:
    below = sorted({path.parent.parent for path in folder.glob("**/episodes/*.jsonl")})[:5]
    if below:
        return f"{folder}: not a run's folder; runs below it: {', '.join(map(str, below))}"
    return (
        f"{folder}: no episodes/*.jsonl in it: expected the folder of a training run "
        "(--log_episodes_interval 1 writes the episodes of every update)"
    )
