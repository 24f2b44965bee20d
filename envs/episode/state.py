"""State of one episode, and the hash of what decides its future."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import date, time, timedelta
from numbers import Number
from typing import Any

import numpy as np

from fctncalling.data.types import Episode, Message, StepRecord, Task, TurnResults, Verdict
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.tools.bfcl.directory_tree import Directory
from fctncalling.envs.user_tools import UserTools

MAX_DEPTH = 16  # of a state's objects
_MAX_BITS = 10_000  # of an integer as a number: the interpreter writes out some 14,000
_ATOMS = (bytes, bytearray, Number, np.generic, date, time, timedelta)  # what their texts tell
LAST_STEPS = 2  # with so many or fewer steps left in a turn their number counts


def state_hash(
    tools: str,
    past: str,
    results: Iterable[str],
    turn: int,
    observation: str,
    *,
    steps_left: int,
    forgiven: Collection[int] = (),
) -> str:
    """Return the hash of an episode's state: of all that decides what can still happen.

    tools: `content_hash` of the tools' state; past: of the turns that ended, or of what the user
    said where a checker counts questions; results: this turn's; forgiven: turns for which a strict
    reward pays no more, whatever follows.

    It takes in the tools' whole state, the turn, the observation that the agent answers, what the
    checker will look at (each turn's results, without order or number, and the state it ended in),
    and the steps that are left where the limit is near. The agent's own earlier messages are left
    out on purpose: tools are deterministic, so what can still happen does not depend on how the
    agent came here. A policy may remember more; what is matched by this hash assumes that it does
    not matter.
    """
    left = steps_left if steps_left <= LAST_STEPS else -1
    unpaid = [[turn in forgiven, any(it < turn for it in forgiven)]] if forgiven else []
    return _digest([tools, past, sorted(set(results)), turn, observation, left, *unpaid])


def content_hash(value: Any) -> str:
    """Return the content hash of an object, private attributes included."""
    try:
        return _digest(value, sort_keys=True)
    # keys of several types; what holds itself; integers over the interpreter's limit of digits
    except (TypeError, ValueError, RecursionError):
        return _digest(canonical_json(value))


def canonical_json(value: Any, depth: int = 0) -> Any:
    """Return the canonical JSON of an object's content, equal for equal content."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return hex(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth > MAX_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        named = [(str(canonical_json(key)), each) for key, each in value.items()]
        # by their texts: 1 and "1" are one name, and their values may not compare
        return sorted(([name, canonical_json(each, depth + 1)] for name, each in named), key=repr)
    if isinstance(value, list | tuple):
        return [canonical_json(each, depth + 1) for each in value]
    return canonical_json(_parts(value), depth + 1)


def _parts(value: Any) -> Any:
    """Return what an object that JSON does not know is made of."""
    if isinstance(value, set | frozenset):
        return sorted(str(canonical_json(each)) for each in value)
    if isinstance(value, random.Random):
        return hashlib.sha256(repr(value.getstate()).encode()).hexdigest()
    if isinstance(value, np.random.Generator):
        return str(value.bit_generator.state)
    if isinstance(value, Directory):
        return value.graph()
    if isinstance(value, _ATOMS):
        return [type(value).__name__, str(value)]
    if isinstance(value, np.ndarray):  # of texts' embeddings the last digits depend on the machine
        return [type(value).__name__, value.shape]
    if isinstance(value, deque):
        return list(value)
    state = object.__getstate__(value)  # a pair where the class has slots
    attributes = state if isinstance(state, tuple) else getattr(value, "__dict__", "")
    return [type(value).__name__, attributes]


def _digest(content: Any, *, sort_keys: bool = False) -> str:
    # The encoder is written in C: a walk in Python took ten times as long as the step itself.
    text = json.dumps(content, sort_keys=sort_keys, default=_parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


_SHARED = ("task", "session")  # the task never changes; the session copies its state itself


@dataclass
class EpisodeState:
    """State of one episode, mutable; a step changes it through its methods."""

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

    @property
    def is_over(self) -> bool:
        """Whether the episode is over: terminated or truncated."""
        return self.terminated or self.truncated

    @property
    def in_last_turn(self) -> bool:
        """Whether the episode is in the last turn of its task."""
        return self.turn + 1 >= len(self.task.question)

    def has_function(self, name: str) -> bool:
        """Whether the task has a function of this name.

        False where nothing is executed.
        """
        return self.session is not None and self.session.has_function(name)

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Add messages to the conversation."""
        self.conversation += messages

    def execute(self, calls: Sequence[str], tools: UserTools) -> tuple[str, ...]:
        """Execute the calls of one message; return and record their result texts.

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
        shown, judged = tools.execute_calls(calls, self.session)
        self.results += judged
        return tuple(shown)

    def count_step(self) -> int:
        """Count a step that does not end its turn; return how many the turn has now."""
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
            results = sorted(set(self.results))
            self.past_hash = content_hash([self.past_hash, results, self._hash_of_tools()])
        if not last:
            self.turn += 1
            self.steps_in_turn = 0
            self.results = []

    def add_step(self, step: StepRecord) -> None:
        """Add a step to the episode, with its reward."""
        self.paid += step.reward
        self.steps.append(step)

    def fail(self, text: str, reason: str) -> None:
        """Mark the episode as failed, hence invalid: infrastructure broke in this step."""
        self.invalid_reason = reason
        self.terminated = False
        self.truncated = True
        self.steps.append(StepRecord(self.turn, text))

    def to_episode(self, seed: int | None) -> Episode:
        """Convert the state to an Episode, the record so far."""
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

    def state_hash(self, observation: str, max_steps_per_turn: int) -> str:
        """Return the state's hash, of what decides the future, see `state_hash`."""
        past = self.past_hash
        if self.task.kind == "clarify":  # its questions are counted, their answers looked at
            said = [each.get("content") for each in self.conversation if each["role"] == "user"]
            past = content_hash(said)
        return state_hash(
            self._hash_of_tools(),
            past,
            self.results,
            self.turn,
            observation,
            steps_left=max_steps_per_turn - self.steps_in_turn,
            forgiven=self.forgiven,
        )

    def _hash_of_tools(self) -> str:
        """Return the hash of the tools' state, made anew only where calls were executed."""
        if self.session is not None and not self.tools_hash:
            self.tools_hash = content_hash(self.session.live_state())
        return self.tools_hash

    def get_state(self) -> dict[str, Any]:
        """Get a private copy of the state, the tools' included."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _SHARED}
        session = None if self.session is None else self.session.get_state()
        return {"task_id": self.task.id, "session": session, "play": copy.deepcopy(values)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the state to one of `get_state` of the same task; it can be used again."""
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
