"""Users without a mind: the task's own script, and the answers of a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fctncalling.data.types import Message


def scripted_user(conversation: list[Message], about: Mapping[str, Any]) -> str | None:
    """Answer nothing: whatever the agent says without a call, the task's next turn follows."""
    return None


class LoggedUser:
    """The answers of a logged episode, in their order: what another user said, to the letter.

    None stands for the script's next turn. Raises LookupError where the episode asks once more
    than the log did.
    """

    def __init__(self, replies: Iterable[str | None]) -> None:
        self._replies = list(replies)
        self._count = 0

    def __call__(self, conversation: list[Message], about: Mapping[str, Any]) -> str | None:
        """Return the next logged answer."""
        if self._count >= len(self._replies):
            raise LookupError(f"the log has {self._count} answers of the user, and one more is due")
        self._count += 1
        return self._replies[self._count - 1]
