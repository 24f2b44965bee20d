"""Possible answers of a task file: BFCL's sibling `possible_answer/` file, or the user's."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.data.errors import Location, TaskWarning
from fctncalling.data.json_stream import read_entries
from fctncalling.data.validation import explain, is_answer

AnswerSource = str | Path | Mapping[str, Sequence[Any] | Mapping[str, Any]]
"""A folder of answer files, one answer file, or a mapping of entry id to its ground truth (or its
answer entry).
"""


class PossibleAnswers:
    """Possible answers of one task file, read in step with it.

    BFCL writes both files in the same order, so one answer at a time is held. Answers met before
    their entry are kept until it asks for them.
    """

    def __init__(self, source: AnswerSource | None, task_file: Path) -> None:
        self.explicit = source is not None
        self._mapping = source if isinstance(source, Mapping) else None
        self._path = _answer_file(None if isinstance(source, Mapping) else source, task_file)
        self._rest: Iterator[Mapping[str, Any]] | None = None
        self._waiting: dict[str, Mapping[str, Any]] = {}
        self._warned_of_missing = False

    def find(self, place: Location) -> Mapping[str, Any] | None:
        """Return a private copy of the answer to the entry at `place`.

        None, with one warning, without an answer file.

        Raises TaskError where there are answers but none for this id, or where a file asked for is
        not there.
        """
        assert place.id is not None
        if self._mapping is not None:
            if place.id not in self._mapping:
                raise place.error("ground_truth: the possible_answers given have no such id")
            known = copy.deepcopy(self._mapping[place.id])
            return known if isinstance(known, Mapping) else {"ground_truth": known}
        if not self.explicit and not self._path.exists():
            self._warn_of_missing(place)
            return None
        answer = self._in_file(place.id)
        if answer is None:
            raise place.error(f"ground_truth: {self._path} has no answer with this id")
        return answer

    def _in_file(self, entry_id: str) -> Mapping[str, Any] | None:
        if self._rest is None:
            self._rest = self._read()
        while entry_id not in self._waiting:
            answer = next(self._rest, None)
            if answer is None:
                return None
            self._waiting[answer["id"]] = answer
        return self._waiting.pop(entry_id)

    def _read(self) -> Iterator[Mapping[str, Any]]:
        for line, answer in read_entries(self._path):
            if not is_answer(answer):
                raise Location(self._path, line).error(explain(answer, "answer"))
            yield answer

    def _warn_of_missing(self, place: Location) -> None:
        if not self._warned_of_missing:
            self._warned_of_missing = True
            warnings.warn(
                f"{place}: ground_truth: no possible answers: expected them in the entry or in "
                f"{self._path}; "
                "the tasks of this file cannot be judged",
                TaskWarning,
                stacklevel=2,
            )


def _answer_file(source: str | Path | None, task_file: Path) -> Path:
    folder = task_file.parent / "possible_answer" if source is None else Path(source)
    return folder / task_file.name if source is None or folder.is_dir() else folder
