"""State hash and place of an episode, by which others are compared with it.

Episodes with equal hashes have the same future under the reward in use; a place is where an episode
stands along its task's truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fctncalling.data.types import TurnResults
from fctncalling.envs.episode.state import EpisodeState, hash_of_text
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.judging.judge import TruthPath
from fctncalling.envs.judging.strict import MAX_CALLS, MAX_TRIES, distinct_calls, function_of
from fctncalling.envs.users.rule_user import RuleUser
from fctncalling.envs.users.user_names import User, scripted_user

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
