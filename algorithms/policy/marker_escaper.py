"""Escaping of special tokens and template markers in untrusted text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fctncalling.data.neutral_mark import broken_mark
from fctncalling.data.types import Message

_MARKER = re.compile(r"<\|?/?[\w:-]+\|?>|\[/?[A-Z_]{3,}\]")


class MarkerEscaper:
    """Breaks markers in untrusted text (tool results, user messages, function docs).

    An invisible character after a marker's first character (`broken_mark`) leaves it readable, and
    the tokenizer encodes it as ordinary text in place of a special token.
    """

    def __init__(self, markers: Collection[str]) -> None:
        """markers: strings to break, such as special tokens; shorter than two characters: not."""
        words = sorted(
            (word for word in markers if len(word.strip()) > 1), key=lambda word: (-len(word), word)
        )
        self._pattern = re.compile("|".join(map(re.escape, words))) if words else None

    def escape(self, text: str, keep: Sequence[str] = ()) -> str:
        """Return the text with every marker broken, except those in `keep`."""
        if self._pattern is None:
            return text
        kept = frozenset(keep)
        return self._pattern.sub(
            lambda match: match[0] if match[0] in kept else _broken(match), text
        )

    def escape_value(self, value: Any) -> Any:
        """Return a JSON value with all its strings escaped, keys included."""
        if isinstance(value, str):
            return self.escape(value)
        if isinstance(value, Mapping):
            return {self.escape_value(k): self.escape_value(v) for k, v in value.items()}
        return [self.escape_value(v) for v in value] if isinstance(value, list | tuple) else value

    def escape_messages(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with all fields but their roles escaped."""
        return [
            {k: v if k == "role" else self.escape_value(v) for k, v in message.items()}
            for message in messages
        ]


def markers_in(rendered: str) -> list[str]:
    """Return what looks like a template marker (<|user|>, </tool>, [INST]) in a rendered prompt."""
    return _MARKER.findall(rendered)


def _broken(match: re.Match[str]) -> str:
    return broken_mark(match[0])
