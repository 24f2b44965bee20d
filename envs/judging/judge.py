"""BFCL's verdict on an answer or an episode: decoded, executed and checked.

The truth is replayed on a second set of tools, never on those of the answer: judging touches
nothing that is judged. It is the same for every answer to its task, so from the second answer on it
is kept: result texts and states as plain data, never tools, and never changed. What a user's own
tools or an agentic task's do is replayed each time.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from fctncalling.checkers import check
from fctncalling.checkers.agentic import NOT_ONE_TURN
from fctncalling.checkers.clarify import ClarifyRecord, is_question
from fctncalling.checkers.multi_turn import LiveTurnResults, Turn, check_turn_pairs
from fctncalling.data.categories import WITHOUT_ANSWER
from fctncalling.data.types import Message, StepRecord, Task, TurnResults, Verdict
from fctncalling.envs.episode.state import (
    EpisodeState,
    UnreadableStateError,
    content_hash,
    reraise_as_infrastructure,
)
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers import DecodeError, Handler, bears_call
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.judging.strict import first_leniency_in_turn
from fctncalling.envs.python_source.call_source import PlainCall
from fctncalling.envs.rewards import StepOutcome, scored_turns
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


__all__ = ["ANSWER_FORMS", "judge", "judge_turns", "replay_ground_truth"]

ANSWER_FORMS = ("prompting", "tool_call", "tool_call_dots", "decoded_calls")
Kept = TypeVar("Kept")
# tasks of which an environment keeps truth and schemas; long-context truths take about 1 MB each
TASKS_KEPT = 64
TRUTHS = GroundTruthCache()
"""What `judge` remembers of the tasks that it is asked about more than once."""


def judge(
    task: Task,
    response: Any,
    form: str = "prompting",
    *,
    extra_tools: ExtraTools | None = None,
    truth: Sequence[TurnResults] | None = None,
) -> Verdict:
    """Judge one answer and return BFCL's verdict.

    Single turn: `response` is the text ("prompting": a Python list of calls, or what the task's
    prompt variant asks for; "tool_call": JSON text of [{name: "<arguments as a JSON string>"}],
    dots in names turned to underscores; "tool_call_dots": the same with dots kept). Multi turn: a
    list (turns) of lists (steps) of such texts, or, as "decoded_calls", of call strings. Agentic:
    the last message, or all messages as a list (of one turn) of lists (steps); clarify: the same,
    its questions first, which are only counted, for what was answered is known to the environment
    alone. `truth` spares a replay where it is at hand. Raises UnsupportedCategory, LookupError for
    an unknown form or tool, ValueError for a task that cannot be judged.
    """
    if form not in ANSWER_FORMS:
        raise LookupError(f'no form is called "{form}": expected one of {", ".join(ANSWER_FORMS)}')
    if task.kind == "multi_turn":
        return _judge_multi_turn(task, response, form, extra_tools, truth)
    if task.kind == "agentic":
        return check(task, _last_message(task, response, form))
    if form == "decoded_calls":
        raise ValueError(
            f'task "{task.id}": form decoded_calls is for multi-turn categories, not '
            f"{task.category}"
        )
    if task.kind == "clarify":
        return _judge_clarify(task, response, form)
    record = _decoded(handler_for(task, form), response)
    return check(task, record, underscore_to_dot=form == "tool_call")


def _judge_multi_turn(
    task: Task,
    response: Any,
    form: str,
    extra_tools: ExtraTools | None,
    truth: Sequence[TurnResults] | None,
) -> Verdict:
    if not isinstance(response, list):
        return check(task, None, replay_ground_truth(task, extra_tools) if truth is None else truth)
    expected = TRUTHS.ground_truth(task, extra_tools) if truth is None else iter(truth)
    num_expected = len(task.ground_truth or ()) if truth is None else len(truth)
    # What an answer with a wrong number of turns left behind is looked at only as far as the
    # truth goes.
    turns = replay_turns(
        task,
        [_calls_of_turn(task, turn, form) for turn in response[:num_expected]],
        extra_tools,
        "model",
    )
    return check_turn_pairs(zip(turns, expected, strict=False), len(response), num_expected)


def _judge_clarify(task: Task, response: Any, form: str) -> Verdict:
    """Judge the messages of one turn, or a single text without questions."""
    turns = response if isinstance(response, list) else [[response]]
    texts = turns[0] if len(turns) == 1 and isinstance(turns[0], list) else turns
    handler = handler_for(task, form)
    questions = [
        text
        for text in texts[:-1]
        if not _decoded(handler, text) and not (isinstance(text, str) and bears_call(text))
    ]
    record = ClarifyRecord(_decoded(handler, texts[-1]) if texts else None, len(questions))
    return check(task, record, underscore_to_dot=form == "tool_call")


def judge_turns(task: Task, turns: Sequence[TurnResults], truth: Sequence[TurnResults]) -> Verdict:
    """Judge recorded turns; the verdict includes which turns pass."""
    return check(task, turns, truth)


def _calls_of_turn(task: Task, turn: Any, form: str) -> list[str | PlainCall]:
    """Return one turn's call strings.

    Steps that do not decode, or decode to nothing, are dropped as in BFCL.
    """
    steps = turn if isinstance(turn, list) else []
    if form == "decoded_calls":
        return [
            call
            for step in steps
            for call in (step if isinstance(step, list) else [step])
            if isinstance(call, str) and call
        ]
    handler = handler_for(task, form)
    return [call for step in steps for call in _executable(handler, step)]


def _last_message(task: Task, response: Any, form: str) -> Any:
    """Return the last step without calls; None if every step calls."""
    if isinstance(response, str):
        response = [[response]]
    if (
        not isinstance(response, list)
        or len(response) != 1
        or not isinstance(response[0], list | str | dict)
    ):
        return NOT_ONE_TURN
    # BFCL goes through whatever a turn is: a text's characters, a call's name.
    steps = list(response[0])
    handler = handler_for(task, "prompting" if form == "decoded_calls" else form)
    return next((step for step in reversed(steps) if not any(_executable(handler, step))), None)


def _executable(handler: Handler, text: Any) -> Sequence[str | PlainCall]:
    try:
        return handler.decode_action(text).executable_calls
    except DecodeError:
        return []


def _decoded(handler: Handler, text: Any) -> Any:
    try:
        return handler.decode_ast(text)
    except DecodeError:
        return None


class EpisodeJudge:
    """Judge of episodes by their records; executes no calls again.

    Raises InfrastructureError where it cannot.
    """

    def __init__(self, tools: Mapping[str, type]) -> None:
        self._tools = dict(tools)
        self._paths: dict[str, TruthPath] = {}

    def verdict(self, state: EpisodeState, record: Any) -> Verdict | None:
        """Return the official verdict on an ended episode; None for a task without answers.

        `record` is the last message as the single-turn checkers read it.
        """
        task = state.task
        if task.is_memory_prerequisite or (
            task.ground_truth is None and task.category not in WITHOUT_ANSWER
        ):
            return None
        with reraise_as_infrastructure("checker"):
            if task.kind == "agentic":
                return check(task, state.last_message)
            if task.kind == "clarify":
                answers = answers_to_questions(state.steps, state.conversation)
                return check(task, ClarifyRecord(record, len(answers), answers))
            if task.is_multi_turn:
                return judge_turns(task, state.turns, self.truth(task))
            return check(task, record)

    def turn_passes(self, state: EpisodeState, turn: int) -> bool:
        """Whether a finished turn passes BFCL's check, apart from earlier turns."""
        if not any(scored_turns(state.task)[turn : turn + 1]):
            return False
        if not state.task.is_multi_turn:
            return state.verdict is not None and state.verdict.valid
        with reraise_as_infrastructure("checker"):
            return judge_turns(state.task, state.turns, self.truth(state.task)).per_turn[turn]

    def outcome(self, state: EpisodeState, step: StepRecord, *, turn_ends: bool) -> StepOutcome:
        """Return the outcome of a step, the input of rewards."""
        steps = (*state.steps, step)
        return StepOutcome(
            step,
            state.verdict,
            lambda: turn_ends and self.turn_passes(state, step.turn),
            lambda: first_leniency_in_turn(state.task, steps, step.turn) is None,
            state.strict_verdict,
            shares=max(1, sum(scored_turns(state.task))),
            paid=state.paid,
        )

    def truth(self, task: Task) -> tuple[TurnResults, ...]:
        """Return the turn results of a task's ground truth.

        Raises InfrastructureError where it cannot be replayed.
        """
        return self.path(task).turns

    def path(self, task: Task) -> TruthPath:
        """Return a task's ground truth replayed call by call, cached; raises as `truth`."""
        return bounded_memo(self._paths, task.id, lambda: replay_path(task, self._tools))


def answers_to_questions(steps: Sequence[StepRecord], conversation: Sequence[Message]) -> list[str]:
    """Return the user's answers to the questions of a turn."""
    texts = [str(message.get("content")) for message in conversation if message["role"] == "user"]
    replies = texts[len(texts) - len(steps) :]  # one behind each step; the request comes before
    return [text for step, text in zip(steps, replies, strict=True) if is_question(step)]


def bounded_memo(memory: dict[str, Kept], key: str, make: Callable[[], Kept]) -> Kept:
    """Return a value from a bounded memo (FIFO), made on the first request of its key."""
    if key not in memory:
        while len(memory) >= TASKS_KEPT:
            del memory[next(iter(memory))]
        memory[key] = make()
    return memory[key]
