"""Errors of users' task files (with file, line and id) and rewards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class TaskError(ValueError):
    """Error of a task file or entry that cannot be read.

    The message names the place, the field and what was expected.
    """


MAX_REWARD = 1e9  # the squares of returns beyond it have no room in fp32


class RewardError(ValueError):
    """Error of a reward: it raised, or is no finite number of at most MAX_REWARD.

    A bug to mend, which ends a run: an episode without its reward says nothing about the policy.
    """


class IncompleteTaskWarning(UserWarning):
    """Warning of a readable task file that lacks something a checker needs."""


@dataclass(frozen=True)
class Location:
    """Location of an entry (file, line, id), for messages about it."""

    path: Path
    line: int  # 1 is the first; where the entry begins
    id: str | None = None  # None while the entry's id is not known to be one

    def __str__(self) -> str:
        return f"{self.path} line {self.line}" + (
            f' (id "{self.id}")' if self.id is not None else ""
        )

    def error(self, text: str) -> TaskError:
        """Make a TaskError with this place and the text; the caller raises it."""
        return TaskError(f"{self}: {text}")
