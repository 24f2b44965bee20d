"""Thoughts of models that reason first: set apart before calls are looked for."""

from __future__ import annotations

import re
from typing import NamedTuple

from fctncalling.envs.handlers.call_marks import bears_mark, is_within_call

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
_OPENING = re.compile(rf"^[^\S\n]*({'|'.join(map(re.escape, THOUGHTS))})", re.MULTILINE)
_ENDS = ("<|end|>", "<|eom|>")  # of messages, of thoughts too
_CLOSING = re.compile("|".join(re.escape(e) for e in THOUGHTS.values() if e not in _ENDS))
_HEADER = "<|start|>assistant"  # of the message behind a thought's


class SplitThought(NamedTuple):
    """Message in two: its thought, and the rest, in which calls count."""

    thought: str
    rest: str
    closed: bool = True  # False: the message ends within the thought

    @property
    def searched(self) -> str:
        """Text in which marks of calls are looked for: the rest, and a thought without an end."""
        return self.rest if self.closed else f"{self.rest}\n{self.thought}"


def _may_think(text: str) -> bool:
    """Whether one of the words stands in a text that every mark of a thought has; in no time."""
    if "<" not in text:
        return "THINK]" in text or "[B" in text
    is_tagged = "think" in text or "THINK" in text or "channel" in text
    return is_tagged or "to=self" in text or "<|i" in text or "[B" in text


def split_thought(text: str) -> SplitThought:
    """Split the thought off a message, whoever opened it; an unclosed one reaches to the end.

    Marks inside a call, as in an argument's text, are none of a thought's.
    """
    if not isinstance(text, str) or not _may_think(text):
        return SplitThought("", text)
    thoughts, rest, closed = list[str](), text, True
    opening = _OPENING.search(text)
    # one that the prompt opened
    closing = _CLOSING.search(text, 0, opening.start() if opening else len(text))
    if closing and not is_within_call(text, closing.start()):
        thoughts.append(text[: closing.start()])
        rest = text[closing.end() :]
        opening = _OPENING.search(rest)
    while closed and opening and not is_within_call(rest, opening.start()):
        inside, mark, behind = rest[opening.end() :].partition(THOUGHTS[opening[1]])
        thoughts.append(inside)
        rest, closed = rest[: opening.start()] + behind, bool(mark)
        opening = _OPENING.search(rest) if _may_think(rest) else None
    if not thoughts:
        return SplitThought("", text)
    thought = "\n".join(each.strip() for each in thoughts).strip()
    return SplitThought(thought, rest.lstrip().removeprefix(_HEADER).lstrip(), closed)


def bears_call(text: str) -> bool:
    """Whether a text bears a call's mark, with a form's grammar or the text's end behind it.

    Looked for where calls count: behind thoughts; where a thought has no end, in it.
    """
    return bears_mark(split_thought(text).searched)
