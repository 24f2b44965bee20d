"""MarkerEscaper: untrusted text in which no template marker is special."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fctncalling.data.types import Message
from fctncalling.data.unsafe_text import break_marker

MARKER = re.compile(r"<\|?/?[\w:-]+\|?>|\[/?[A-Z_]{3,}\]")


class MarkerEscaper:
    """Escaper of template markers in untrusted text (tool results, user messages, docs).

    An invisible character after a marker's first character (`break_marker`) leaves it readable, and
    the tokenizer encodes it as ordinary text in place of a special token.
    """

    def __init__(self, markers: Collection[str]) -> None:
        """markers: strings to break, such as special tokens; shorter than two characters: not."""
        words = sorted(
            (word for word in markers if len(word.strip()) > 1), key=lambda word: (-len(word), word)
        )
        self._pattern = re.compile("|".join(map(re.escape, words))) if words else None

    def escape(self, text: str, keep: Sequence[str] = ()) -> str:
        """Escape every marker in a text, except those in `keep`."""
        if self._pattern is None:
            return text
        kept = frozenset(keep)
        return self._pattern.sub(
            lambda match: match[0] if match[0] in kept else _broken(match), text
        )

    def escape_value(self, value: Any) -> Any:
        """Escape a JSON value: the markers in all its strings, keys included."""
        if isinstance(value, str):
            return self.escape(value)
        if isinstance(value, Mapping):
            return {self.escape_value(k): self.escape_value(v) for k, v in value.items()}
        return [self.escape_value(v) for v in value] if isinstance(value, list | tuple) else value

    def escape_messages(self, messages: Sequence[Message]) -> list[Message]:
        """Escape the markers in all fields of messages but their roles."""
        return [
            {k: v if k == "role" else self.escape_value(v) for k, v in message.items()}
            for message in messages
        ]


def _broken(match: re.Match[str]) -> str:
    return break_marker(match[0])
