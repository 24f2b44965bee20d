"""Runner of episodes: turns an assistant message into a step with results, verdict and reward.

It also says where an episode stands: episodes with equal state hashes have the same future under
the reward in use; a place is where an episode stands along its task's truth.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, NamedTuple

from fctncalling.data.types import Call, FunctionDoc, Message, StepRecord, Task, TurnResults
from fctncalling.data.unsafe_text import truncate_together
from fctncalling.envs.episode.state import (
    EpisodeState,
    hash_of_text,
    reraise_as_infrastructure,
)
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers import DecodeError, Handler, bears_call, split_thought
from fctncalling.envs.handlers.handler import UNREAD, SplitThought
from fctncalling.envs.handlers.registry import resolve_handler
from fctncalling.envs.judging.judge import EpisodeJudge, TruthPath, bounded_memo
from fctncalling.envs.judging.strict import (
    MAX_CALLS,
    MAX_TRIES,
    distinct_calls,
    function_of,
    strict_verdict,
)
from fctncalling.envs.prompting import prompts
from fctncalling.envs.prompting.prompts import JSON_TYPES, PROMPT_STYLES, TaskPrompt
from fctncalling.envs.rewards import Reward, is_strict_reward
from fctncalling.envs.user_tools import UserTools
from fctncalling.envs.users.rule_user import RuleUser
from fctncalling.envs.users.user_names import User, make_user, scripted_user

MAX_STEP_OUTPUT = 500_000
"""Characters of a step's results in its messages; checkers read the whole results."""

RULE_USER = RuleUser()
"""The user of clarify tasks if no `user` is given."""


class ParsedMessage(NamedTuple):
    """Parsed message of the assistant: its calls, or why there are none."""

    calls: tuple[Call, ...]
    executed: tuple[str, ...]  # call strings for the tools; empty for a task that executes nothing
    record: Any  # BFCL's decoded form, for the single-turn checkers; None where decoding failed
    error: str | None  # "no_call", "malformed", "unread_call", or None where there are calls
    complaint: str  # the decoder's, "" where there is none
    repairs: tuple[str, ...] = ()  # what a lenient mode mended before it read the calls


def parse_message(
    handler: Handler, text: str, *, executes: bool, functions: Sequence[FunctionDoc] = ()
) -> ParsedMessage:
    """Parse an assistant message with a handler, after its thought.

    Raises only for a missing extra: anything else a decoder meets is the model's mistake.

    If a decoder's crash counted as failed infrastructure, a policy could learn to get its bad
    episodes dropped.
    """
    record: Any = None
    split = split_thought(text)
    try:
        action = handler.decode_action(split.rest, functions)
        record = None if executes else action.record
        calls = action.calls
        executed = action.call_strings if executes else ()
    except DecodeError as error:
        return _unparsed(handler, split, record, error.message)
    except ImportError:
        raise  # an extra that is not installed is nobody's answer
    except Exception as error:
        return _unparsed(handler, split, record, f"{type(error).__name__}: {error}")
    if not calls:
        return _without_calls(split, record, "", "no_call")
    return ParsedMessage(calls, executed, record, None, "", action.repairs)


def _unparsed(handler: Handler, split: SplitThought, record: Any, message: str) -> ParsedMessage:
    error = "malformed" if _recognises(handler, split.rest) else "no_call"
    return _without_calls(split, record, message, error)


def _without_calls(
    split: SplitThought, record: Any, complaint: str, otherwise: str
) -> ParsedMessage:
    """Return a message without calls; "unread_call" if a call opens and cannot be read."""
    if not isinstance(split.rest, str) or not bears_call(split):
        return ParsedMessage((), (), record, otherwise, complaint)
    return ParsedMessage((), (), record, "unread_call", complaint or "the call cannot be read")


def _recognises(handler: Handler, text: Any) -> bool:
    """Whether an undecodable text looks like calls.

    A value in a result file that is no text does not.
    """
    try:
        return isinstance(text, str) and handler.recognises(text)
    except ImportError:
        raise  # an extra that is not installed is nobody's answer
    except Exception:
        return True  # such as deep nesting, which only calls have


ERRORS = (
    "no_call",
    "malformed",
    "unread_call",
    "unknown_function",
    "bad_arguments",
    "tool_error",
    "step_limit",
)
EXECUTION_ERROR = "Error during execution: "
MAX_QUOTED = 80  # characters of a name of the model's that are repeated to it
MAX_NAMES = 5  # and how many of such names


def classify_error(
    step: StepRecord,
    functions: Sequence[FunctionDoc],
    has_function: Callable[[str], bool],
) -> str | None:
    """Return the worst error of a step: unknown_function, bad_arguments, tool_error or None.

    The words are `info["error"]` and, where corrective feedback is on, what follows a wrong call's
    result. BFCL's verdict depends on neither.
    """
    docs = {doc.name: doc for doc in functions}
    if any(call.name not in docs and not has_function(call.name) for call in step.calls):
        return "unknown_function"
    described = [(call, docs[call.name]) for call in step.calls if call.name in docs]
    if any(any(_argument_name_errors(call, doc)) for call, doc in described):
        return "bad_arguments"
    return "tool_error" if any(map(is_tool_error, step.results)) else None


def add_corrections(
    step: StepRecord, offered: Sequence[FunctionDoc], has_function: Callable[[str], bool]
) -> tuple[str, ...]:
    """Append advice to the result of each wrong call of a step.

    `offered`: the functions of its turn. Where calls and results do not pair up (a call inside
    another's arguments) the results stay as they are.
    """
    if len(step.calls) != len(step.results):
        return tuple(step.results)
    docs = {doc.name: doc for doc in offered}
    pairs = zip(step.calls, step.results, strict=True)
    advice = (
        (result, " ".join(_advice(call, docs, has_function, is_tool_error(result))))
        for call, result in pairs
    )
    return tuple(f"{result}\n{text}" if text else result for result, text in advice)


def _advice(
    call: Call, docs: dict[str, FunctionDoc], has_function: Callable[[str], bool], failed: bool
) -> Iterator[str]:
    """Yield sentences on how to correct a call; none if its doc and its tool accept it."""
    doc = docs.get(call.name)
    if doc is None:
        if not has_function(call.name):
            like = ", ".join(get_close_matches(_quoted(call.name), docs, n=3, cutoff=0.0)) or "none"
            yield (
                f'There is no function "{_quoted(call.name)}"; offered and nearest in name: {like}.'
            )
        return
    missing, unexpected = _argument_name_errors(call, doc)
    properties = doc.parameters.get("properties", {})
    if missing:
        yield (
            f"{doc.name} lacks "
            f"{', '.join(f'{name} ({_expected(properties.get(name, {}))})' for name in missing)}."
        )
    if unexpected:
        takes = ", ".join(properties) or "no parameters"
        yield (
            f"{doc.name} has no parameter {', '.join(map(_quoted, unexpected[:MAX_NAMES]))}; it "
            f"takes {takes}."
        )
    if missing or unexpected or failed:
        for name, value in call.arguments.items():
            if name in properties and not _has_type(value, properties[name]):
                yield (
                    f"{name} must be of type {_expected(properties[name])}, not "
                    f"{_type_name(value)}."
                )


def _argument_name_errors(call: Call, doc: FunctionDoc) -> tuple[list[str], list[str]]:
    """Return a call's missing parameters, and its arguments that are not documented."""
    documented, required = doc.parameters.get("properties", {}), doc.parameters.get("required", ())
    return [name for name in required if name not in call.arguments], [
        n for n in call.arguments if n not in documented
    ]


def _expected(schema: dict[str, Any]) -> str:
    """Return a parameter's JSON Schema type; "any" if its doc has none."""
    return JSON_TYPES.get(schema.get("type", ""), "any")


def _has_type(value: object, schema: dict[str, Any]) -> bool:
    expected, actual = _expected(schema), _type_name(value)
    return expected in ("any", actual) or (expected, actual) == ("number", "integer")


def _type_name(value: object) -> str:
    """Return the JSON Schema type of a literal."""
    if value is None:
        return "null"
    return JSON_TYPES.get(type(value).__name__, type(value).__name__)


def _quoted(name: str) -> str:
    return name if len(name) <= MAX_QUOTED else name[:MAX_QUOTED] + "..."


def is_tool_error(result: str) -> bool:
    """Whether a result text is an exception's, or a JSON object with "error" alone."""
    if result.startswith(EXECUTION_ERROR):
        return True
    if not result.startswith('{"error"'):
        return False
    try:
        return list(json.loads(result)) == ["error"]
    except ValueError:
        return False


class StepResult(NamedTuple):
    """Result of a step: its record, and the observation and messages that follow."""

    step: StepRecord
    observation: str
    messages: list[Message]
    extra: dict[str, Any]  # what only this step's `info` has


@dataclass
class EpisodeRunner:
    """Runner of an episode's steps, by the rules that FunctionCallingEnv's keywords set."""

    handler: Handler
    reward: Reward
    tools: UserTools
    user: User | str | None  # a name is replaced by its user
    max_steps_per_turn: int
    strict: bool
    retry_malformed: bool
    corrective_feedback: bool
    prompt_style: str = "bfcl"

    def __post_init__(self) -> None:
        if self.prompt_style not in PROMPT_STYLES:
            raise ValueError(
                f"prompt_style={self.prompt_style!r}: expected one of {', '.join(PROMPT_STYLES)}."
            )
        if isinstance(self.user, str):
            self.user = make_user(self.user)
        most = self.max_steps_per_turn
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ValueError(f"max_steps_per_turn={most!r}: expected a whole number of at least 1.")
        self._judge = EpisodeJudge(self.tools.classes)
        self._prompts: dict[str, TaskPrompt] = {}

    def task_prompt(self, task: Task) -> TaskPrompt:
        """Return the prompt of a task, cached."""
        return bounded_memo(
            self._prompts,
            task.id,
            lambda: TaskPrompt(task, resolve_handler(self.handler, task), self.prompt_style),
        )

    def play_message(self, state: EpisodeState, text: str) -> StepResult:
        """Play a message of the assistant: advance the episode and return the step's result.

        Raises InfrastructureError.
        """
        task = state.task
        handler = resolve_handler(self.handler, task)
        offered = self.task_prompt(task).functions(state.turn)
        parsed = parse_message(handler, text, executes=state.session is not None, functions=offered)
        step, displayed = self._execute(state, parsed, text)
        messages = prompts.tool_messages(displayed.executed, displayed.results)
        observation = prompts.results_message(displayed)
        turn_ends = not parsed.executed
        if turn_ends:
            state.last_message = text
        if not parsed.calls and (reply := self._reply(state, parsed)) is not None:
            messages = [{"role": "user", "content": reply}]
            observation = reply
            turn_ends = False
            # the user answered: a question, however it is spelled, but for a call's mark in it
            if not self.retry_malformed and parsed.error == "malformed":
                step = replace(step, error="no_call")
        if not turn_ends and state.count_step() > self.max_steps_per_turn:
            step = replace(step, error="step_limit")
            turn_ends = True
        if turn_ends:
            state.end_turn(last=state.in_last_turn or step.error == "step_limit")
            if state.terminated:
                state.verdict = self._judge.verdict(state, parsed.record)
            else:
                messages = self.task_prompt(task).messages(state.turn)
                observation = prompts.join_contents(messages)
        step = self._with_reward(state, step, turn_ends=turn_ends)
        extra = self._final_info(state) if state.terminated else {}
        if handler.is_lenient:
            extra["repairs"] = list(parsed.repairs)
        return StepResult(step, observation, messages, extra)

    def state_hash(self, state: EpisodeState, observation: str) -> str | None:
        """Hash all state that decides an episode's future; None if a tool's state is unreadable."""
        assert not isinstance(self.user, str)
        return state_hash(
            state,
            observation,
            steps_left=self.max_steps_per_turn - state.steps_in_turn,
            is_strict=is_strict_reward(self.reward),
            user=self.user,
            truth=lambda: self._judge.truth(state.task),
        )

    def episode_place(self, state: EpisodeState) -> Place | None:
        """Return the episode's place along the truth; None if no truth can be replayed."""
        task = state.task
        if not task.is_multi_turn or task.ground_truth is None or not state.hash_of_tools():
            return None
        try:
            with reraise_as_infrastructure("truth"):
                return place_on_path(state, self._judge.path(task))
        except InfrastructureError:  # told at the end
            return None

    def _execute(
        self, state: EpisodeState, parsed: ParsedMessage, text: str
    ) -> tuple[StepRecord, StepRecord]:
        """Execute a message's calls; return the step with full results, and as displayed."""
        results = state.execute(parsed.executed, self.tools)
        step = StepRecord(state.turn, text, parsed.calls, parsed.executed, results, parsed.error)
        if parsed.calls:
            step = replace(
                step, error=classify_error(step, state.task.functions, state.has_function)
            )
        if self.corrective_feedback:
            offered = self.task_prompt(state.task).functions(state.turn)
            results = add_corrections(step, offered, state.has_function)
        return step, replace(step, results=tuple(truncate_together(results, MAX_STEP_OUTPUT)))

    def _reply(self, state: EpisodeState, parsed: ParsedMessage) -> str | None:
        """Answer a message without calls within its turn; None if the turn ends instead."""
        if parsed.error in UNREAD and self.retry_malformed:
            return prompts.unreadable_message(parsed.complaint)
        task = state.task
        user = self.user or (RULE_USER if task.kind == "clarify" else None)
        if user is None:
            return None
        assert not isinstance(user, str)
        about = {"task_id": task.id, "category": task.category, "turn": state.turn, "task": task}
        with reraise_as_infrastructure("user"):
            reply = user(copy.deepcopy(state.conversation), about)
        if reply is not None and not isinstance(reply, str):
            raise InfrastructureError(
                f"user {user!r} returned {reply!r:.80}: expected a str, or None to end the turn."
            )
        return reply

    def _with_reward(self, state: EpisodeState, step: StepRecord, *, turn_ends: bool) -> StepRecord:
        """Pay the step its reward, and add it to the episode."""
        if self.strict and state.verdict is not None:
            steps: Sequence[StepRecord] = (*state.steps, step)
            state.strict_verdict = strict_verdict(state.task, steps, state.verdict)
        outcome = self._judge.outcome(state, step, turn_ends=turn_ends)
        step = replace(step, reward=self.reward(outcome))
        state.add_step(step)
        has_truth = not state.task.is_multi_turn or step.turn < len(state.task.ground_truth or ())
        if is_strict_reward(self.reward) and has_truth and not outcome.turn_is_strict():
            state.forgiven.add(step.turn)
        return step

    def _final_info(self, state: EpisodeState) -> dict[str, Any]:
        if state.task.is_memory_prerequisite:
            # the notes of the memory, which the questions' `snapshot` gets
            return {"verdict": None, "snapshot": copy.deepcopy(dict(state.turns[-1].states))}
        final = {"verdict": state.verdict, "ground_truth": copy.deepcopy(state.task.ground_truth)}
        if self.strict and state.verdict is not None:
            final["strict_verdict"] = state.strict_verdict
        return final


STATE_HASH_VERSION = "2"  # 0.3 and before had another, and named none
DETOURS = 2  # steps, calls or tries beyond the truth's for which a limit is looked at ahead


def state_hash(
    state: EpisodeState,
    observation: str,
    *,
    steps_left: int,
    is_strict: bool,
    user: User | None,
    truth: Callable[[], Sequence[TurnResults]],
) -> str | None:
    """Hash an episode's state; None if a tool's state cannot be read.

    steps_left: in this turn; is_strict: whether the reward is; truth: the turn results of the
    ground truth, called only if results repeat.

    It takes in the tools' whole state, the turn, the observation that the agent answers, what
    checkers will look at (each turn's results, without order, as often as the truth needs them, and
    the state that each turn ended in), what a user may go by, and what is left of a limit, where
    the truth's calls and `DETOURS` more could reach it. The agent's own earlier messages are left
    out on purpose: tools are deterministic, so what can still happen does not depend on how the
    agent came here. A policy may remember more; what is matched by this hash assumes that it does
    not matter.
    """
    tools = state.hash_of_tools()
    if state.unreadable:
        return None
    expected = _truth_calls(state)
    content = [
        [state.task.id, tools, state.past_hash, sorted(set(state.results)), state.turn],
        [observation, steps_left if steps_left <= len(expected) + DETOURS else None],
        _repeated_results(state, truth),
        _said(state, user),
    ]
    if is_strict and state.forgiven:
        earlier = any(turn < state.turn for turn in state.forgiven)
        content.append([state.turn in state.forgiven, earlier])
    if is_strict and state.turn not in state.forgiven:
        content += _strict_limits(state, expected)
    return hash_of_text(repr(content))  # nothing but texts and numbers in lists and dicts


def _truth_calls(state: EpisodeState) -> Sequence[str]:
    turns = state.task.ground_truth or () if state.task.is_multi_turn else ()
    return [str(text) for text in turns[state.turn]] if state.turn < len(turns) else ()


def _repeated_results(
    state: EpisodeState, truth: Callable[[], Sequence[TurnResults]]
) -> list[list[Any]]:
    """Count the results seen that the truth needs more than once in a turn."""
    turns = [*(turn.results for turn in state.turns), state.results]
    calls = state.task.ground_truth or () if state.task.is_multi_turn else ()
    repeated = max(Counter(text for turn in turns for text in turn).values(), default=0) > 1
    if not repeated or not any(len(turn) > 1 for turn in calls):
        return []
    try:
        needed = [_repeats(turn.results) for turn in truth()]
    except InfrastructureError:  # reported at the end; till then every number counts
        needed = [Counter(text for turn in turns for text in turn)] * len(turns)
    seen, repeats = Counter[str](), list[list[Any]]()
    for number, turn in enumerate(turns):
        seen.update(turn)
        # A result of the current turn still counts in later turns: compare with what each needs.
        is_current = number == len(turns) - 1
        for counts in needed[number:] if is_current else needed[number : number + 1]:
            repeats += [
                [number, text, min(seen[text], count)] for text, count in sorted(counts.items())
            ]
    return repeats


def _repeats(texts: Iterable[str]) -> Mapping[str, int]:
    return {text: count for text, count in Counter(texts).items() if count > 1}


def _said(state: EpisodeState, user: User | None) -> Any:
    """Return the part of the conversation that a user, or the checker of answers, depends on."""
    if not (user is None or user is scripted_user or isinstance(user, RuleUser)):
        return state.conversation
    if state.task.kind == "clarify":  # its questions are counted, their answers looked at
        return [turn.get("content") for turn in state.conversation if turn["role"] == "user"]
    length = len(state.conversation) if isinstance(user, RuleUser) else 0  # its wording's choice
    return [length, state.last_message if state.task.kind == "agentic" else None]


def _strict_limits(state: EpisodeState, expected: Sequence[str]) -> list[Any]:
    """Return how many calls and tries a strict turn has left, if they may run out."""
    steps = [step for step in state.steps if step.turn == state.turn]
    count = sum(max(len(step.calls), len(step.executed)) for step in steps)
    left = MAX_CALLS[0] + MAX_CALLS[1] * len(expected) - count
    # A limit is part of the state only near its end: else no two histories would have one hash.
    tries: dict[str, list[str]] = {function_of(text): [] for text in expected}
    for call in distinct_calls(steps):
        if call.name in tries:
            tries[call.name].append(repr([call.name, sorted(map(repr, call.arguments.items()))]))
    many = [sorted(calls) for calls in tries.values() if len(calls) > MAX_TRIES - DETOURS]
    return [left] * (left <= len(expected) + DETOURS) + many


Place = tuple[int, int, bool]
"""Turn, calls of the truth still to come, whether the episode is on the truth's path."""


def place_on_path(state: EpisodeState, path: TruthPath) -> Place | None:
    """Return an episode's place along the replayed truth; None after the truth's last turn.

    It is on the path where the tools' state is one that the truth passes in this turn, with the
    results of its calls up to there seen, after turns that each ended as the checker demands; under
    a strict reward nothing was forgiven either. Other calls beside the truth's do no harm while the
    state stays equal, and a mistake that is mended leads back.
    """
    if state.turn >= len(path.turns):
        return None
    so_far, on_path = Counter[str](), not state.forgiven
    for turn, end_hash, true_turn, true_hashes in zip(
        state.turns, state.end_hashes, path.turns, path.hashes, strict=False
    ):
        so_far.update(turn.results)
        if true_turn.results:  # else the turn passes always
            has_end_state = bool(turn.results) and end_hash == true_hashes[-1]
            on_path = on_path and has_end_state and Counter(true_turn.results) <= so_far
    so_far.update(state.results)
    true_results = path.turns[state.turn].results
    on_path = on_path and any(
        true_hash == state.hash_of_tools() and Counter(true_results[:num_calls]) <= so_far
        for num_calls, true_hash in enumerate(path.hashes[state.turn])
    )
    missing = Counter(true_results) - Counter(state.results)
    later = sum(len(turn.results) for turn in path.turns[state.turn + 1 :])
    return state.turn, missing.total() + later, on_path
