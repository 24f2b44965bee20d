"""Unread calls: texts in which a call opens, whether or not any can be read."""

from __future__ import annotations

from fctncalling.envs.handlers.call_marks import bears_mark
from fctncalling.envs.handlers.thoughts import split_thought


def bears_call(text: str) -> bool:
    """Whether a text bears a call's mark, with a form's grammar or the text's end behind it.

    Looked for where calls count: behind thoughts; where a thought has no end, in it.
    """
    split = split_thought(text)
    return bears_mark(split.rest if split.closed else f"{split.rest}\n{split.thought}")
