"""Thoughts of reasoning models: split off before calls are read."""

from __future__ import annotations

import re
from typing import NamedTuple

from fctncalling.envs.handlers.call_marks import is_within_call

THOUGHTS = {
    "<think>": "</think>",
    "[THINK]": "[/THINK]",
    "<thinking>": "</thinking>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "<think:opensource>": "</think:opensource>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel>thought": "<channel|>",
    "<|channel|>analysis<|message|>": "<|end|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
    "<|inner_prefix|>": "<|inner_suffix|>",
    "to=self<|message|>": "<|eom|>",
    "[BEGIN REASONING]": "[BEGIN FINAL RESPONSE]",
}
"""The mark that opens a thought -> the one that closes it."""
_OPENING = re.compile("|".join(map(re.escape, THOUGHTS)))
_ENDS = ("<|end|>", "<|eom|>")  # of messages, of thoughts too
_CLOSING = re.compile("|".join(re.escape(e) for e in THOUGHTS.values() if e not in _ENDS))
_HEADER = "<|start|>assistant"  # of the message behind a thought's


class SplitThought(NamedTuple):
    """Message split into its thought and the rest, in which calls count."""

    thought: str
    rest: str
    closed: bool = True  # False: the message ends within the thought


def _may_think(text: str) -> bool:
    """Whether a text contains a word that every mark of a thought has; a fast test."""
    if ("<" in text and "think" in text) or "THINK]" in text or "[B" in text:
        return True
    return "|" in text and any(word in text for word in ("THINK", "channel", "to=self", "<|i"))


def _opening(text: str) -> re.Match[str] | None:
    """Return the first mark at the beginning of a line that opens a thought."""
    mark = _OPENING.search(text)
    while mark and text[text.rfind("\n", 0, mark.start()) + 1 : mark.start()].strip():
        mark = _OPENING.search(text, mark.end())
    return mark


def without_thought(text: str) -> str:
    """Return a message without its thought."""
    return _split(text)[1]


def split_thought(text: str) -> SplitThought:
    """Split the thought off a message; an unclosed one reaches to the end.

    Marks inside a call, as in an argument's text, are none of a thought's.
    """
    return SplitThought(*_split(text))


def _split(text: str) -> tuple[str, str, bool]:
    """Return the thought, the rest, and whether the thought is closed."""
    if not isinstance(text, str) or not _may_think(text):
        return "", text, True
    if opening := _OPENING.match(text):  # most thoughts; nothing but them is looked for again
        inside, mark, rest = text[opening.end() :].partition(THOUGHTS[opening[0]])
        if mark and not _may_think(rest):
            return inside.strip(), rest.lstrip().removeprefix(_HEADER).lstrip(), True
    thoughts: list[str] = []
    rest, closed, opening = text, True, _opening(text)
    # one that the prompt opened
    before = opening.start() if opening else len(text)
    closing = _CLOSING.search(text, 0, before) if before else None
    if closing and not is_within_call(text, closing.start()):
        thoughts.append(text[: closing.start()].strip())
        rest = text[closing.end() :]
        opening = _opening(rest)
    while closed and opening and not is_within_call(rest, opening.start()):
        inside, mark, behind = rest[opening.end() :].partition(THOUGHTS[opening[0]])
        thoughts.append(inside.strip())
        rest, closed = rest[: opening.start()] + behind, bool(mark)
        opening = _opening(rest) if _may_think(rest) else None
    if not thoughts:
        return "", text, True
    return "\n".join(thoughts).strip(), rest.lstrip().removeprefix(_HEADER).lstrip(), closed
