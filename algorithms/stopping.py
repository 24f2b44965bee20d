"""Where an action ends, or pauses for what is put into it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from fctncalling.algorithms.generation.engine_api import Action, Request


class StopCondition:
    """Watches one action for the ends its request names.

    Text is decoded from a window of last tokens just long enough for the longest string, so that a long action costs
    no more a token than a short one; what came before an end that was answered is not searched again.
    """

    def __init__(
        self,
        request: Request,
        end_ids: Collection[int],
        decode: Callable[[Sequence[int]], str] | None,
    ):
        if request.stop and decode is None:
            raise ValueError(
                "the request has stop strings, but the engine was given no decode= to read its tokens by"
            )
        self._end_ids, self._stop_ids, self._decode = end_ids, frozenset(request.stop_ids), decode
        self._strings = tuple(request.stop)
        # Each token stands for a byte at least; a few more, as some may stand for none.
        self._window = max((len(string.encode()) for string in self._strings), default=0) + 8
        self._first = 0  # of the tokens that are searched

    def reason(self, action: Action) -> str:
        """Return why the action ends with its last token: "end", "stop" (`action.stop` tells the string) or ""."""
        last = action.ids[-1]
        if last in self._end_ids:
            return "end"
        if last in self._stop_ids:
            return "stop"
        if self._strings and self._decode is not None:
            text = self._decode(action.ids[max(self._first, len(action.ids) - self._window) :])
            for string in self._strings:
                if string in text:
                    action.stop = string
                    return "stop"
        return ""

    def resume_after(self, action: Action) -> None:
        """Go on behind an end that was answered by ids put in."""
        self._first, action.stop = len(action.ids), ""
