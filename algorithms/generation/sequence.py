"""One growing sequence of a decode engine, and the request it is at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch

from fctncalling.algorithms.generation.engine_api import Action, Request
from fctncalling.algorithms.generation.sequence import StopCondition


class Slot:
    """What a slot holds beside its cache: tokens not read yet, the action it is at and where that ends."""

    def __init__(self, number: int, stream: torch.Generator) -> None:
        self.number, self.stream = number, stream
        self.pending: list[int] = []  # sampled or given, not yet passed through the model
        self.prefix: tuple[int, ...] = ()  # what the sequence began with
        self.action = Action()
        self._request: Request | None = None
        self._noise: list[float] = []

    def start_request(
        self,
        request: Request,
        end_ids: Collection[int],
        decode: Callable[[Sequence[int]], str] | None,
        max_new_tokens: int,
        *,
        greedy: bool,
    ) -> None:
        """Take a request; ValueError where the slot has one already, or nothing to read."""
        if self._request is not None:
            raise ValueError(
                f"slot {self.number} has a request already: wait for its action, or begin the slot again"
            )
        if not self.pending and not request.new_ids:
            raise ValueError(
                f"slot {self.number} has nothing to read: an action needs at least one prompt token"
            )
        self._stops = StopCondition(request, end_ids, decode)
        self.pending = [*self.pending, *request.new_ids]
        self._request, self.action, self._end_ids = request, Action(), end_ids
        self._limit = min(request.max_new_tokens or max_new_tokens, max_new_tokens)
        self._plain = not (request.stop or request.stop_ids or request.on_token)
        self._num_sampled = 0
        # Always max_new_tokens numbers an action: a stream must not depend on how long its actions are.
        self._noise = (
            []
            if greedy
            else torch.rand(max_new_tokens, generator=self.stream, dtype=torch.float64).tolist()
        )

    @property
    def uniform(self) -> float:
        """The next token's number, uniform in [0, 1)."""
        return self._noise[self._num_sampled]

    def append(self, token: int, logprob: float, value: float | None) -> bool:
        """Add a sampled token to the action; return whether the action ends with it."""
        action = self.action
        action.append(token, logprob, value)
        self.pending = [token]
        self._num_sampled += 1
        going_on = len(action.ids) < self._limit
        if self._plain and going_on and token not in self._end_ids:
            return False
        reason = self._reason(token, logprob) or ("" if len(action.ids) < self._limit else "length")
        if reason:
            action.stop_reason, self._request = reason, None
        return bool(reason)

    def _reason(self, token: int, logprob: float) -> str:
        """Return why the action ends with its last token, after what answers a stop is put in; "" where it goes on."""
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
            action.append(forced, None, 0.0 if action.values else None)
            if request.on_token is not None:
                request.on_token(forced, None)
        self.pending = [*self.pending, *ids]
        self._stops.resume_after(action)
        return ""
