"""Errors of the task loader, with file, line and id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class TaskError(ValueError):
    """A task file, or one entry of it, cannot be read; the message names the place, the field and
    what was expected.
    """


class TaskWarning(UserWarning):
    """A task file can be read, but something a checker will miss is not there."""


@dataclass(frozen=True)
class Location:
    """Where an entry stands, so that every message about it can say so."""

    path: Path
    line: int  # 1 is the first; where the entry begins
    id: str | None = None  # None while the entry's id is not known to be one

    def __str__(self) -> str:
        return f"{self.path} line {self.line}" + (
            f' (id "{self.id}")' if self.id is not None else ""
        )

    def error(self, text: str) -> TaskError:
        """Return (not raise) the error that says `text` about this place."""
        return TaskError(f"{self}: {text}")
