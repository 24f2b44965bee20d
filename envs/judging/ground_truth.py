"""Replay of ground-truth calls on fresh tools, cached per task.

A truth is the same for every answer to its task, so from the second answer on it is kept: result
texts and states as plain data, never tools, and never changed. What a user's own tools or an
agentic task's do is replayed each time.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from fctncalling.checkers.multi_turn import LiveTurnResults, Turn
from fctncalling.data.types import Task, TurnResults
from fctncalling.envs.episode.state import UnreadableStateError, content_hash
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.python_source.call_source import PlainCall
from fctncalling.envs.tools import AGENTIC_TOOLS, TOOL_CLASSES
from fctncalling.envs.tools.tool_state import snapshot

ExtraTools = Mapping[str, "type | str"]
States = dict[str, dict[str, Any]]
Look = Callable[[ToolSession], None]

MAX_TRUTHS = 512
"""Truths that are kept at once, those asked for last; some 20 kB each, 200 kB in long context."""
_REPEATABLE = frozenset(TOOL_CLASSES) - AGENTIC_TOOLS


def _look_away(session: ToolSession) -> None:
    pass


class TruthPath(NamedTuple):
    """Ground truth replayed call by call: turns, and the tools' state hash at each call."""

    turns: tuple[TurnResults, ...]
    # of the tools' state, of each turn: before its first call and behind each; "" if not readable
    hashes: tuple[tuple[str, ...], ...]


def replay_path(task: Task, extra_tools: ExtraTools | None = None) -> TruthPath:
    """Replay a task's ground truth on fresh tools, with state hashes.

    Raises as `replay_ground_truth`.
    """
    hashes: list[str] = []

    def add_hash(session: ToolSession) -> None:
        try:
            hashes.append(content_hash(session.hashed_state()))
        except UnreadableStateError:
            hashes.append("")

    turns = replay_ground_truth(task, extra_tools, add_hash)
    rest = iter(hashes)  # one before the first call of a turn, and one after each
    return TruthPath(turns, tuple(tuple(islice(rest, len(turn.results) + 1)) for turn in turns))


def replay_ground_truth(
    task: Task, extra_tools: ExtraTools | None = None, look: Look = _look_away
) -> tuple[TurnResults, ...]:
    """Replay a task's ground truth on fresh tools; return each turn's results and states.

    Raises ValueError for a task without ground truth, LookupError for a class without tool,
    InfrastructureError where a tool breaks or its state cannot be copied.
    """
    turns: list[TurnResults] = []
    before: States = {}
    for turn in iter_ground_truth(task, extra_tools, look):
        try:
            before = _copied(turn.states, before)
        except RecursionError as error:
            raise InfrastructureError(
                f'task "{task.id}": the state of the truth nests too deep to copy'
            ) from error
        turns.append(TurnResults(turn.results, before))
    return tuple(turns)


def iter_ground_truth(
    task: Task, extra_tools: ExtraTools | None = None, look: Look = _look_away
) -> Iterator[LiveTurnResults]:
    """Replay a task's ground truth lazily, turn by turn.

    Raises as `replay_ground_truth`.
    """
    if task.ground_truth is None:
        raise ValueError(
            f'task "{task.id}": category {task.category} cannot be judged without a ground truth'
        )
    return replay_turns(task, task.ground_truth, extra_tools, "ground_truth", look)


def replay_turns(
    task: Task,
    turns: Sequence[Sequence[str | PlainCall]],
    extra_tools: ExtraTools | None,
    owner: str,
    look: Look = _look_away,
) -> Iterator[LiveTurnResults]:
    """Replay turns of calls on fresh tools; yield each turn's results and live states.

    look: is shown the tools before the first call of each turn and behind each.
    """
    try:
        session = ToolSession(
            task.involved_classes,
            task.initial_config,
            long_context=task.long_context,
            extra_tools=extra_tools,
            owner=owner,
        )
    except LookupError as error:
        raise LookupError(f'task "{task.id}": {error}') from None
    for calls in turns:
        look(session)
        results = []
        for call in calls:
            results.append(session.execute(call))
            look(session)
        yield LiveTurnResults(tuple(results), session.live_state())


def _copied(states: Mapping[str, Mapping[str, Any]], before: States) -> States:
    """Copy the public attributes of states.

    Values that equal those of the copy `before` are shared with it.
    """
    memo: dict[int, Any] = {}
    copied: States = {}
    for name, attributes in states.items():
        previous = before.get(name, {})
        copied[name] = {
            attribute: previous[attribute]
            if attribute in previous and previous[attribute] == value
            else snapshot(value, memo)
            for attribute, value in attributes.items()
            if attribute[:1] != "_"
        }
    return copied


class GroundTruthCache:
    """Thread-safe cache of replayed ground truths, filled from the second request on."""

    def __init__(self, max_truths: int = MAX_TRUTHS) -> None:
        self._max_truths = max_truths
        # By the identity of a task, which holds as long as the task lives; None for one that was
        # asked for once.
        self._known: OrderedDict[int, tuple[weakref.ref[Task], tuple[TurnResults, ...] | None]] = (
            OrderedDict()
        )
        self._lock = threading.Lock()

    def ground_truth(self, task: Task, extra_tools: ExtraTools | None = None) -> Iterator[Turn]:
        """Yield the results and states of each turn of a task's truth, replayed or cached.

        Each must be compared before the next is requested.

        Raises as `replay_ground_truth`.
        """
        if extra_tools or not _REPEATABLE.issuperset(task.involved_classes):
            return iter_ground_truth(task, extra_tools)
        with self._lock:
            reference, turns = self._known.get(id(task), (None, None))
            again = reference is not None and reference() is task
            if again:
                self._known.move_to_end(id(task))
            else:
                self._keep(task, None)
        if not again:
            return iter_ground_truth(task)
        if turns is None:
            try:
                turns = replay_ground_truth(task)
            except InfrastructureError:
                return iter_ground_truth(task)
            with self._lock:
                self._keep(task, turns)
        return iter(turns)

    def clear(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._known.clear()

    def _keep(self, task: Task, turns: tuple[TurnResults, ...] | None) -> None:
        self._known[id(task)] = weakref.ref(task), turns
        while len(self._known) > self._max_truths:
            self._known.popitem(last=False)
