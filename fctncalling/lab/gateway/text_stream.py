"""TextStream: the text of an action piece by piece, while its tokens come."""

from __future__ import annotations

from collections.abc import Sequence

from fctncalling.algorithms.policy.chat_template import ChatTemplate


class TextStream:
    """Stream of an action's text, token by token; half characters and stops are held back."""

    def __init__(self, template: ChatTemplate, stops: Sequence[str]) -> None:
        self._template = template
        self._stops = stops
        self._ids: list[int] = []
        self.sent = ""

    def push(self, token: int) -> str:
        """Take a token; return the text that is new."""
        self._ids.append(token)
        text = self._template.decode(self._ids)
        whole = text.rstrip("\ufffd")
        found = [whole.index(stop) for stop in self._stops if stop in whole]
        whole = whole[: min(found)] if found else whole[: len(whole) - self._held_back(whole)]
        if not whole.startswith(self.sent) or len(whole) == len(self.sent):
            return ""
        new = whole[len(self.sent) :]
        self.sent = whole
        return new

    def _held_back(self, text: str) -> int:
        """Return how many last characters may begin a stop string."""
        return max(
            (
                size
                for stop in self._stops
                for size in range(1, len(stop))
                if text.endswith(stop[:size])
            ),
            default=0,
        )
