"""State of one episode."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from fctncalling.data.types import Episode, Message, StepRecord, Task, TurnResults, Verdict
from fctncalling.envs.episode.content_hash import (
    UnreadableStateError,
    content_hash,
    hash_of_text,
)
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.user_tools import UserTools

_SHARED = ("task", "session")  # the task never changes; the session copies its state itself


@dataclass
class EpisodeState:
    """Mutable state of one episode; a step changes it through its methods."""

    task: Task
    session: ToolSession | None  # None where nothing is executed (single turn)
    turn: int = 0
    steps_in_turn: int = 0  # steps of this turn that did not end it
    results: list[str] = field(default_factory=list)  # of this turn
    turns: list[TurnResults] = field(default_factory=list)  # the turns that ended
    steps: list[StepRecord] = field(default_factory=list)
    conversation: list[Message] = field(default_factory=list)
    last_message: str | None = None  # the last one that called nothing: an agentic task's answer
    paid: float = 0.0  # rewards so far, added up in order
    # turns in which something had to be forgiven, where the reward is strict
    forgiven: set[int] = field(default_factory=set)
    verdict: Verdict | None = None
    strict_verdict: Verdict | None = None  # where it is asked for
    terminated: bool = False
    truncated: bool = False
    invalid_reason: str | None = None  # why infrastructure failed
    tools_hash: str = ""  # of the tools' state; "" where calls may have changed it
    past_hash: str = ""  # of the turns that ended
    end_hashes: list[str] = field(default_factory=list)  # of the tools' state, of each such turn
    unreadable: str = ""  # the tool whose state could not be read, and what it holds

    @property
    def is_over(self) -> bool:
        """Whether the episode has terminated or been truncated."""
        return self.terminated or self.truncated

    @property
    def in_last_turn(self) -> bool:
        """Whether the episode is in the last turn of its task."""
        return self.turn + 1 >= len(self.task.question)

    def has_function(self, name: str) -> bool:
        """Whether the task's tools have a function of this name.

        False if the task executes no calls.
        """
        return self.session is not None and self.session.has_function(name)

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Add messages to the conversation."""
        self.conversation += messages

    def execute(self, calls: Sequence[str], tools: UserTools) -> tuple[str, ...]:
        """Execute the calls of one message; record and return their result texts.

        Raises InfrastructureError.
        """
        if not calls:
            return ()
        if self.session is None:
            raise RuntimeError(
                f'task "{self.task.id}" has no tools: calls of {self.task.category} are not '
                "executed"
            )
        self.tools_hash = ""
        displayed, judged = tools.execute_calls(calls, self.session)
        self.results += judged
        return tuple(displayed)

    def count_step(self) -> int:
        """Count a step that does not end its turn; return the turn's number of such steps."""
        self.steps_in_turn += 1
        return self.steps_in_turn

    def end_turn(self, *, last: bool) -> None:
        """End the turn: record its results and the tools' states for the checker.

        Go on to the next turn unless it was the last. Raises InfrastructureError.
        """
        self.terminated = last
        if self.session is not None:
            record = TurnResults(tuple(self.results), self.session.public_state())
            self.turns.append(record)
            self.end_hashes.append(self.hash_of_tools())
            results = sorted(set(self.results))
            self.past_hash = hash_of_text(repr([self.past_hash, results, self.hash_of_tools()]))
        if not last:
            self.turn += 1
            self.steps_in_turn = 0
            self.results = []

    def add_step(self, step: StepRecord) -> None:
        """Add a step to the episode, with its reward."""
        self.paid += step.reward
        self.steps.append(step)

    def fail(self, text: str, reason: str) -> None:
        """Mark the episode as invalid: infrastructure failed in this step."""
        self.invalid_reason = reason
        self.terminated = False
        self.truncated = True
        self.steps.append(StepRecord(self.turn, text))

    def to_episode(self, seed: int | None) -> Episode:
        """Convert the state to the Episode so far."""
        return Episode(
            task_id=self.task.id,
            category=self.task.category,
            steps=tuple(self.steps),
            verdict=self.verdict,
            terminated=self.terminated,
            truncated=self.truncated,
            invalid=self.invalid_reason is not None,
            seed=seed,
        )

    def hash_of_tools(self) -> str:
        """Hash the tools' state; computed anew only after calls were executed.

        "" where it cannot be read: `unreadable` then says why.
        """
        if self.session is not None and not self.tools_hash:
            try:
                self.tools_hash = content_hash(self.session.hashed_state())
            except UnreadableStateError as error:
                names = ", ".join(self.task.involved_classes)
                self.unreadable = f"the state of {names} holds {error}"
        return self.tools_hash

    def get_state(self) -> dict[str, Any]:
        """Copy the state, the tools' included."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _SHARED}
        session = None if self.session is None else self.session.get_state()
        return {"task_id": self.task.id, "session": session, "play": copy.deepcopy(values)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state` of the same task; the state stays usable."""
        for name, value in copy.deepcopy(dict(state["play"])).items():
            setattr(self, name, value)
        if self.session is not None:
            self.session.set_state(state["session"])


@contextmanager
def reraise_as_infrastructure(culprit: str) -> Iterator[None]:
    """Context manager: reraise any error as InfrastructureError, naming the culprit."""
    try:
        yield
    except InfrastructureError:
        raise
    except Exception as error:
        raise InfrastructureError(f"{culprit}: {type(error).__name__}: {error}") from error
