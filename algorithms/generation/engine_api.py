"""Generation engine protocol: requests in, sampled actions out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class EngineError(Exception):
    """Error of the engine, which produced no action; the episode is invalid."""


class RolloutError(RuntimeError):
    """Error of the rollout's infrastructure, final: the run ends, and can be resumed later."""


@dataclass
class Request:
    """Request for an action: a slot's new prompt tokens, and the stop conditions.

    An action ends at one of the engine's end tokens, at one of `stop_ids`, when its text contains
    one of the strings in `stop`, or at its limit. `on_stop` is called at a stop of the request's
    own: ids that it returns (a tool's result in mid-action) are appended, not sampled, and the
    action goes on; None ends it. `on_token` is called with every id as it comes and its
    log-probability, None if not sampled.
    """

    slot: int
    new_ids: list[int]
    max_new_tokens: int | None = None  # lowers the engine's limit, for an episode's token budget
    temperature: float | None = None  # of this action; None: the engine's
    stop: Sequence[str] = ()  # strings at which the action pauses; they stay part of it
    stop_ids: Sequence[int] = ()  # tokens that do the same
    on_stop: Callable[[Action], Sequence[int] | None] | None = None
    on_token: Callable[[int, float | None], None] | None = None
    task_id: str = ""  # this and the rest are for scripted actors
    turn: int = 0
    step_in_turn: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Action:
    """Action: its sampled tokens, their log-probs, and why it ended.

    Log-probs are at the sampling temperature.
    """

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)  # 0.0 where not acted
    acted: list[bool] = field(default_factory=list)  # false on ids that `on_stop` put in
    # end: an end token of the engine; stop: an id or a string of the request's; length: cut
    stop_reason: str = ""
    stop: str = ""  # the string that was found
    failure: EngineError | None = None  # why there is no action; the other fields are then unset

    @property
    def truncated(self) -> bool:
        """Whether the action was truncated: a limit cut it."""
        return self.stop_reason == "length"

    def append(self, token: int, logprob: float | None) -> None:
        """Append a token; its log-probability is None if it was not sampled."""
        self.ids.append(token)
        self.logprobs.append(0.0 if logprob is None else logprob)
        self.acted.append(logprob is not None)


class TokenCounts(NamedTuple):
    """Counts of an engine's tokens since its construction; 0 where it does not count them."""

    sampled: float = 0.0
    forward: float = 0.0  # passed through the model, without padding
    prompt: float = 0.0  # given to slots to read
    shared: float = 0.0  # of them, those that did not pass through the model


class Engine(ABC):
    """Engine of generation, an interface: requests in, actions out.

    A slot holds one growing sequence. Requests of several slots run concurrently: `submit` adds
    one, `advance` works until some are finished, `generate` does both and waits for all.

    `interrupted(n)` is called between two passes of the model; if true, `advance` returns at once,
    because n environments have responded meanwhile. Engines that sample elsewhere need not call it.
    """

    interrupted: Callable[[int], bool] = staticmethod(lambda wanted: False)

    @abstractmethod
    def allocate_slots(self, num_slots: int) -> None:
        """Allocate slots 0..num_slots-1, empty ones, in place of those before.

        Call it whenever the weights changed.
        """

    def release(self) -> None:
        """Release all slots and their caches, of no use once the weights change."""
        self.allocate_slots(0)

    @abstractmethod
    def begin_sequence(self, slot: int, seed: int | None = None) -> None:
        """Begin a sequence in a slot; with a seed it has a separate random stream."""

    @abstractmethod
    def restart_sequence(self, slot: int) -> None:
        """Restart the sequence of a slot: clear it but keep its random stream.

        A pending request of the slot is dropped.
        """

    @abstractmethod
    def submit(self, request: Request) -> None:
        """Submit a request; its slot must have no pending one."""

    @abstractmethod
    def advance(self) -> list[tuple[int, Action]]:
        """Advance until some requests finished; return their actions.

        Return their (slot, action) pairs, none if there was no request.
        """

    @property
    def token_counts(self) -> TokenCounts:
        """Counts of tokens since construction."""
        return TokenCounts()

    def generate(self, requests: Sequence[Request]) -> list[Action]:
        """Generate the action of each request, in their order; no other may be pending."""
        for request in requests:
            self.submit(request)
        finished: dict[int, Action] = {}
        while any(request.slot not in finished for request in requests):
            finished |= dict(self.advance())
        return [finished[request.slot] for request in requests]


class ScriptedEngine(Engine):
    """Engine of a script: encodes the texts of a callable instead of sampling.

    In the same rollout as a model, it makes demonstrations with the ids and masks of training.
    """

    def __init__(
        self,
        script: Callable[[str, int, int, Mapping[str, Any]], str],
        encode: Callable[[str], list[int]],
        end: int | Callable[[str, str], int],
    ) -> None:
        """end: the id that ends a message, or a function of (task id, text) that returns it."""
        self.script = script
        self.encode = encode
        self._end = end
        self._requests: list[Request] = []

    def allocate_slots(self, num_slots: int) -> None:
        """Allocate slots: drop all requests."""
        self._requests = []

    def begin_sequence(self, slot: int, seed: int | None = None) -> None:
        """Begin a sequence in a slot: drop its request, the only state of a script."""
        self.restart_sequence(slot)

    def restart_sequence(self, slot: int) -> None:
        """Restart the sequence of a slot: drop its request, the only state of a script."""
        self._requests = [request for request in self._requests if request.slot != slot]

    def submit(self, request: Request) -> None:
        """Submit a request."""
        self._requests.append(request)

    def advance(self) -> list[tuple[int, Action]]:
        """Advance: finish every request; log-probabilities are 0."""
        finished = []
        for request in self._requests:
            text = self.script(request.task_id, request.turn, request.step_in_turn, request.info)
            # The message goes on behind it.
            found = next((stop for stop in request.stop if text.endswith(stop)), "")
            action = Action(stop_reason="stop" if found else "end", stop=found)
            end = self._end if isinstance(self._end, int) else self._end(request.task_id, text)
            for token in (*self.encode(text), *([] if found else [end])):
                action.append(token, 0.0)
            finished.append((request.slot, action))
        self._requests = []
        return finished
