"""Generation engine protocol: requests in, sampled actions out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class EngineError(Exception):
    """An action cannot be had, through no fault of the policy: its episode is invalid."""


class RolloutError(RuntimeError):
    """Episodes cannot be played any more, through no fault of the policy: the run ends, and can go
    on later.
    """


@dataclass
class Request:
    """What a slot's sequence grows by before the next action is sampled, and how that action may
    end.

    An action ends at one of the actor's end tokens, at one of the request's own (`stop_ids`), where
    its text comes to hold one of the strings in `stop`, or at its limit. `on_stop` may answer a
    string or an id of the request's own: the ids it returns are read as if they had been written (a
    tool's result, in mid-action) and the action goes on; None ends it. `on_token` is called with
    every id as it comes, and its log-probability, None where it was not sampled.
    """

    slot: int
    new_ids: list[int]
    max_new_tokens: int | None = (
        None  # a tighter limit than the actor's, where an episode's budget runs out
    )
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
    """The tokens of an action, their log-probabilities at the sampling temperature, and why it
    ended.
    """

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)  # 0.0 where not acted
    acted: list[bool] = field(default_factory=list)  # false on ids that `on_stop` put in
    # end: an end token of the actor's; stop: an id or a string of the request's; length: cut
    stop_reason: str = ""
    stop: str = ""  # the string that was found
    values: list[float] = field(
        default_factory=list
    )  # of the state before each token, where a value head is given
    failure: EngineError | None = None  # why there is no action; all else means nothing then

    @property
    def truncated(self) -> bool:
        """Whether a limit cut the action."""
        return self.stop_reason == "length"

    def append(self, token: int, logprob: float | None, value: float | None = None) -> None:
        """Add a token; log-probability None stands for one that was not sampled."""
        self.ids.append(token)
        self.logprobs.append(0.0 if logprob is None else logprob)
        self.acted.append(logprob is not None)
        if value is not None:
            self.values.append(value)


class Engine(ABC):
    """Answers requests: a model behind a `GenerationEngine`, a `ScriptedEngine`.

    A slot holds one growing sequence. Requests of several slots are worked on side by side:
    `submit` hands one over, `advance` works until some are answered. `generate` does both and waits
    for all of them.

    `interrupted` is asked between two passes of the model: whether `advance` is to return at once,
    as so many could join. An actor that leaves the work to others need not ask.
    """

    interrupted: Callable[[int], bool] = staticmethod(lambda wanted: False)

    @abstractmethod
    def start(self, num_slots: int) -> None:
        """Forget everything and offer slots 0..num_slots-1;
        call it whenever the weights changed.
        """

    @abstractmethod
    def begin(self, slot: int, seed: int | None = None) -> None:
        """Empty a slot for a new sequence, with a random stream of its own where a seed is
        given.
        """

    @abstractmethod
    def restart(self, slot: int) -> None:
        """Empty a slot for a sequence that is rendered again, and go on with its random stream.

        A request of the slot that is not answered yet is dropped.
        """

    @abstractmethod
    def submit(self, request: Request) -> None:
        """Take a request; its slot must have none that waits for an answer."""

    @abstractmethod
    def advance(self) -> list[tuple[int, Action]]:
        """Work on until some requests are answered; return (slot, action) of each, nothing where
        none was left.
        """

    def generate(self, requests: Sequence[Request]) -> list[Action]:
        """Return one action a request, in their order; no other request may wait for its answer
        meanwhile.
        """
        for request in requests:
            self.submit(request)
        answered: dict[int, Action] = {}
        while any(request.slot not in answered for request in requests):
            answered |= dict(self.advance())
        return [answered[request.slot] for request in requests]


class ScriptedEngine(Engine):
    """Answers with the texts of a callable (task_id, turn, step_in_turn, info) -> text, encoded,
    end of turn included.

    Played through the same rollout as a model, it makes demonstrations with the ids and masks that
    learning will see.
    """

    def __init__(
        self,
        script: Callable[[str, int, int, Mapping[str, Any]], str],
        encode: Callable[[str], list[int]],
        end_of_turn_id: int,
    ) -> None:
        self.script = script
        self.encode = encode
        self.end_of_turn_id = end_of_turn_id
        self._waiting: list[Request] = []

    def start(self, num_slots: int) -> None:
        """Forget what was asked."""
        self._waiting = []

    def begin(self, slot: int, seed: int | None = None) -> None:
        """Forget what the slot was asked: a script keeps no sequences."""
        self.restart(slot)

    def restart(self, slot: int) -> None:
        """Forget what the slot was asked: a script keeps no sequences."""
        self._waiting = [request for request in self._waiting if request.slot != slot]

    def submit(self, request: Request) -> None:
        """Take a request."""
        self._waiting.append(request)

    def advance(self) -> list[tuple[int, Action]]:
        """Answer every request; log-probabilities are 0."""
        answered = []
        for request in self._waiting:
            text = self.script(request.task_id, request.turn, request.step_in_turn, request.info)
            found = next(
                (stop for stop in request.stop if text.endswith(stop)), ""
            )  # the message goes on behind it
            action = Action(stop_reason="stop" if found else "end", stop=found)
            for token in (*self.encode(text), *([] if found else [self.end_of_turn_id])):
                action.append(token, 0.0)
            answered.append((request.slot, action))
        self._waiting = []
        return answered
