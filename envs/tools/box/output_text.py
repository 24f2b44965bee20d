"""Sanitised tool output: marks broken, length bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fctncalling.data.unsafe_text import break_marker
from fctncalling.envs.tools.python_executor.result import truncate_text

TAGS = tuple(
    "<tool_call> </tool_call> <tool_response> </tool_response> <think> </think> [TOOL_CALLS] "
    "<|python_tag|> <|python_start|> <|python_end|> <functions> </functions> <TOOLCALL> "
    "</TOOLCALL> <request> <call> <response> <submit> <PYTHON> </PYTHON> <PYTHON-OUTPUT> "
    "</PYTHON-OUTPUT>".split()
)
"""What handlers and policies read as the beginning or the end of something: never so when a tool
has written it.
"""


def truncate_together(texts: Sequence[str], max_characters: int) -> list[str]:
    """Truncate texts together to a joint budget of characters: over it, each has an equal share."""
    if sum(map(len, texts)) <= max_characters:
        return list(texts)
    return [truncate_text(text, max_characters // len(texts)) for text in texts]


def neutralise_marks(text: str, marks: Iterable[str]) -> str:
    """Neutralise marks (an environment's tag, a template's special token) in a tool's text.

    An invisible character is put behind the first character of each, until none is left. Cut
    afterwards, never before.
    """
    marks = [mark for mark in marks if mark]
    if any(len(mark) < 2 for mark in marks):
        raise ValueError("a mark of one character cannot be neutralised")
    for mark in marks:
        while mark in text:  # again where marks overlap
            text = text.replace(mark, break_marker(mark))
    return text
