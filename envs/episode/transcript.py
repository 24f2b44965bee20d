"""Transcript: a conversation as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fctncalling.data.types import Verdict

_HEADS = {"system": "system", "user": "user", "assistant": "model", "tool": "tool"}


def escape_unprintable(text: str) -> str:
    """Escape the unprintable characters of a text: what steers a terminal or has no encoding."""
    return "".join(
        char if char == "\n" or char.isprintable() else repr(char)[1:-1] for char in text
    )


def transcript(messages: Iterable[Mapping[str, Any]], verdict: Verdict | None = None) -> str:
    """Return the transcript of messages, readable, the verdict as its last line.

    A message with a "speaker" stands under that name. Every line of a message stands behind a bar,
    so that no message can pose as a head or as the verdict.
    """
    blocks = []
    for message in messages:
        head = _HEADS.get(str(message.get("role")), "other")
        head = escape_unprintable(str(message.get("speaker", head)))
        thought = str(message.get("reasoning_content") or "")
        said = f"(thought) {thought}\n{message.get('content') or ''}" if thought else None
        content = escape_unprintable(said or str(message.get("content") or ""))
        if head == "tool":
            content = f"{escape_unprintable(str(message.get('name', '')))}\n= {content}"
        blocks.append("\n".join([f"{head}:", *(f"  | {line}" for line in content.split("\n"))]))
    if verdict is not None:
        blocks.append(
            "verdict: valid"
            if verdict.valid
            else f"verdict: {escape_unprintable(str(verdict.error_type))}"
        )
    return "\n".join(blocks)


def check_render_mode(mode: str | None, modes: Sequence[str]) -> None:
    """Check a render mode; ValueError for one that the environment does not have."""
    if mode not in (None, *modes):
        raise ValueError(f"render_mode={mode!r}: expected one of {list(modes)}, or None.")
