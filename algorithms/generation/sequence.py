"""One sequence of the generation engine and its current request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch

from fctncalling.algorithms.generation.engine_api import Action, Request


class Slot:
    """State of an engine's slot, except its KV cache: pending tokens, request and action."""

    def __init__(self, number: int, stream: torch.Generator) -> None:
        self.number = number
        self.stream = stream
        self.pending: list[int] = []  # sampled or given, not yet passed through the model
        self.prefix: tuple[int, ...] = ()  # what the sequence began with
        self.action = Action()
        self.temperature = 1.0  # of the current request
        self._request: Request | None = None
        self._uniforms: list[float] = []

    def start_request(
        self,
        request: Request,
        end_ids: Collection[int],
        decode: Callable[[Sequence[int]], str] | None,
        max_new_tokens: int,
        temperature: float,
    ) -> None:
        """Start a request in the slot; ValueError if it has one, or no token to continue."""
        if self._request is not None:
            raise ValueError(
                f"slot {self.number} has a request already: wait for its action, or begin the slot "
                "again"
            )
        if not self.pending and not request.new_ids:
            raise ValueError(
                f"slot {self.number} has nothing to read: an action needs at least one prompt token"
            )
        self._stops = StopCondition(request, end_ids, decode)
        self.pending = [*self.pending, *request.new_ids]
        self._request = request
        self.action = Action()
        self._end_ids = end_ids
        self._limit = min(request.max_new_tokens or max_new_tokens, max_new_tokens)
        self._plain = not (request.stop or request.stop_ids or request.on_token)
        self._num_sampled = 0
        self.temperature = temperature if request.temperature is None else request.temperature
        # Always max_new_tokens numbers an action: a stream must not depend on how long its actions
        # are.
        self._uniforms = (
            []
            if self.temperature == 0
            else torch.rand(max_new_tokens, generator=self.stream, dtype=torch.float64).tolist()
        )

    @property
    def uniform(self) -> float:
        """Uniform random number in [0, 1) for sampling the next token."""
        return self._uniforms[self._num_sampled]

    def append(self, token: int, logprob: float) -> bool:
        """Append a sampled token to the action; return whether the action ends with it."""
        action = self.action
        action.append(token, logprob)
        self.pending = [token]
        self._num_sampled += 1
        going_on = len(action.ids) < self._limit
        if self._plain and going_on and token not in self._end_ids:
            return False
        reason = self._reason(token, logprob) or ("" if len(action.ids) < self._limit else "length")
        if reason:
            action.stop_reason = reason
            self._request = None
        return bool(reason)

    def _reason(self, token: int, logprob: float) -> str:
        """Return the stop reason after the last token, "" if the action goes on.

        At a stop that `on_stop` answers, its ids are appended and the action goes on.
        """
        request, action = self._request, self.action
        if request is None:
            return "end"
        if request.on_token is not None:
            request.on_token(token, logprob)
        reason = self._stops.reason(action)
        if reason != "stop" or request.on_stop is None or (ids := request.on_stop(action)) is None:
            return reason
        if len(action.ids) + len(ids) >= self._limit:
            return "length"
        for forced in ids:
            action.append(forced, None)
            if request.on_token is not None:
                request.on_token(forced, None)
        self.pending = [*self.pending, *ids]
        self._stops.resume_after(action)
        return ""


class StopCondition:
    """Stop condition of one action: end tokens, stop ids and stop strings.

    Stop strings are searched in a window of last tokens just long enough for the longest of them,
    so the cost per token does not grow with the action. Text before an answered stop is not
    searched again.
    """

    def __init__(
        self,
        request: Request,
        end_ids: Collection[int],
        decode: Callable[[Sequence[int]], str] | None,
    ):
        if request.stop and decode is None:
            raise ValueError(
                "the request has stop strings, but the engine was given no decode= to read its "
                "tokens by"
            )
        self._end_ids = end_ids
        self._stop_ids = frozenset(request.stop_ids)
        self._decode = decode
        self._strings = tuple(request.stop)
        # Each token stands for a byte at least; a few more, as some may stand for none.
        self._window = max((len(string.encode()) for string in self._strings), default=0) + 8
        self._first = 0  # of the tokens that are searched

    def reason(self, action: Action) -> str:
        """Return the reason why the action stops after its last token, "" if it goes on.

        "end", "stop" (`action.stop` tells the string) or "".
        """
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
        """Resume after a stop that was answered: search only what follows."""
        self._first = len(action.ids)
        action.stop = ""
