"""Near-duplicate guard: words and calls that a forged task may not share with an official one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.categories import UnsupportedCategory
from fctncalling.data.errors import Location, TaskError
from fctncalling.data.json_stream import read_entries
from fctncalling.data.types import Task
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.lab.forge.forged_entry import user_texts

NGRAM = 8  # words in a row
SHARED_WORDS = "shares 8 words in a row with an official task"
SHARED_CALLS = "makes the calls of an official task"
_WORD = re.compile(r"\w+")


def digest(text: str) -> int:
    """Return an 8-byte hash of a text: the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def word_ngrams(texts: Iterable[str]) -> Iterator[str]:
    """Yield the runs of words of each text, lower case and without punctuation."""
    for text in texts:
        words = _WORD.findall(text.lower())
        for start in range(len(words) - NGRAM + 1):
            yield " ".join(words[start : start + NGRAM])


def expected_calls_text(task: Task) -> str | None:
    """Return a task's expected calls with their values as one text; None if it expects none."""
    try:
        turns = oracle_calls(task)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # a few official truths cannot be written as calls
    calls = [[call.name, dict(call.arguments)] for turn in turns for call in turn]
    return json.dumps(calls, sort_keys=True, default=str) if calls else None


@dataclass
class OfficialGuard:
    """Compact hashes of the official tasks' words and calls.

    `files` maps the name of each file read to its SHA-256; it is empty where none was there.
    """

    files: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None  # where the files lie
    _ngrams: set[int] = field(default_factory=set)
    _calls: set[int] = field(default_factory=set)

    @classmethod
    def of_folder(cls, folder: Path) -> OfficialGuard:
        """Return the guard against every task file of a folder; TaskError if one is broken."""
        guard = cls(folder=folder)
        for file in sorted(folder.glob("BFCL_*.json")):
            if file.stem.endswith("_format_sensitivity"):
                continue
            guard.files[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
            for line, entry in read_entries(file):
                texts = _user_texts(entry, Location(file, line))
                guard._ngrams.update(map(digest, word_ngrams(texts)))
            try:
                sequences = filter(None, map(expected_calls_text, iter_tasks(file)))
                guard._calls.update(map(digest, sequences))
            except (TaskError, UnsupportedCategory):
                continue  # its tools are not documented here: its words are guarded all the same
        return guard

    def fault(self, texts: Iterable[str], sequence: str | None) -> str | None:
        """Return the reason why a task resembles an official one; None if it does not."""
        if not self.files:
            return None
        if any(digest(ngram) in self._ngrams for ngram in word_ngrams(texts)):
            return SHARED_WORDS
        if sequence is not None and digest(sequence) in self._calls:
            return SHARED_CALLS
        return None


def _user_texts(entry: Any, place: Location) -> list[str]:
    """Return the user messages of an entry. Raises TaskError if it has no such messages."""
    try:
        return list(user_texts(entry["question"]))
    except (KeyError, TypeError):
        raise place.error(
            "question: expected a list of turns, each a list of messages with role and content"
        ) from None
