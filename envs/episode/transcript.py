"""Transcript: a conversation as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fctncalling.data.types import Verdict

_HEADS = {"system": "system", "user": "user", "assistant": "model", "tool": "tool"}


def escape_unprintable(text: str) -> str:
    """Escape characters that control a terminal or have no encoding."""
    return "".join(
        char if char == "\n" or char.isprintable() else repr(char)[1:-1] for char in text
    )


def transcript(messages: Iterable[Mapping[str, Any]], verdict: Verdict | None = None) -> str:
    """Format messages as a readable transcript, with the verdict as its last line.

    A message with a "speaker" is headed by that name. Every line of a message begins with a bar, so
    that no message can imitate a head or the verdict.
    """
    blocks = []
    for message in messages:
        head = _HEADS.get(str(message.get("role")), "other")
        head = escape_unprintable(str(message.get("speaker", head)))
        thought = str(message.get("reasoning_content") or "")
        with_thought = f"(thought) {thought}\n{message.get('content') or ''}" if thought else None
        content = escape_unprintable(with_thought or str(message.get("content") or ""))
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
    """Raise ValueError for a render mode that the environment does not have."""
    if mode not in (None, *modes):
        raise ValueError(f"render_mode={mode!r}: expected one of {list(modes)}, or None.")
