"""Neutral mark: the invisible character that breaks a tag or special token in untrusted text."""

from __future__ import annotations

WORD_JOINER = "\u2060"
"""No tag and no special token contains it, and no line breaks at it: the text reads the same."""


def broken_mark(mark: str) -> str:
    """Return a mark of two characters or more that no parser and no tokenizer takes for one."""
    return mark[0] + WORD_JOINER + mark[1:]
