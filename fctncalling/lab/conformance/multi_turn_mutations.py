"""Mutations of multi-turn answers: steps, turns, calls, state, order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.lab.conformance.single_turn_mutations import (
    Mutated,
    mutations_by_name,
    pick,
    require,
)

CLOSING = "Done."
READING = (
    *("pwd", "message_get_login_status", "posting_get_login_status", "ticket_get_login_status"),
    *("trading_get_login_status", "travel_get_login_status"),
)
"""Functions of BFCL's tools that change nothing and take no arguments."""

Turns = Sequence[Sequence[Call]]
Steps = list[str]  # texts of a turn's messages


@dataclass(frozen=True)
class MultiTurnDraft:
    """Expected calls of a multi-turn task, turn by turn."""

    task: Task
    turns: Turns

    def answer(self) -> list[Steps]:
        """Return the answer: in each turn one message with its calls, then closing words."""
        return [[*([_written(turn)] if turn else []), CLOSING] for turn in self.turns]

    def with_turn(self, index: int, calls: Sequence[Call]) -> MultiTurnDraft:
        """Return the draft with other calls in one turn."""
        return replace(self, turns=[*self.turns[:index], calls, *self.turns[index + 1 :]])

    def places(self) -> Iterator[tuple[int, int, Call]]:
        """Yield turn, index and call of each call."""
        for turn, calls in enumerate(self.turns):
            for index, call in enumerate(calls):
                yield turn, index, call

    def with_call(self, turn: int, index: int, call: Call) -> MultiTurnDraft:
        """Return the draft with another call in the place of one."""
        calls = self.turns[turn]
        return self.with_turn(turn, [*calls[:index], call, *calls[index + 1 :]])

    def acting_turns(self) -> list[int]:
        """Return the turns that have calls."""
        return [index for index, calls in enumerate(self.turns) if calls]

    def reading_call(self) -> Call:
        """Return a call without effect; NothingToChangeError if no tool has one."""
        offered = {doc.name for doc in self.task.functions}
        names = [name for name in READING if name in offered]
        require(names)
        return Call(names[0], {})


def right_multi_turn_draft(task: Task) -> MultiTurnDraft | None:
    """Return the right answer of a multi-turn task.

    None where its truth cannot be written as calls of named arguments.
    """
    try:
        draft = MultiTurnDraft(task, oracle_calls(task))
        draft.answer()
    except (ValueError, TypeError, KeyError):
        return None
    return draft


def _written(calls: Sequence[Call]) -> str:
    return get_handler("python_calls").render(calls)


def _canonical(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    return Mutated(draft.answer(), "the right calls, those of a turn in one message")


def _one_call_a_step(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    answer = [[*(_written([call]) for call in calls), CLOSING] for calls in draft.turns]
    return Mutated(answer, "one call in each message")


def _no_closing_words(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    answer = [[_written(calls)] if calls else [] for calls in draft.turns]
    return Mutated(answer, "no words behind the calls")


def _keyword_order(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    turned = [
        [Call(call.name, dict(reversed(list(call.arguments.items())))) for call in calls]
        for calls in draft.turns
    ]
    answer = MultiTurnDraft(draft.task, turned).answer()
    require(answer != draft.answer())
    return Mutated(answer, "arguments in another order")


def _reading_call(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    call = draft.reading_call()
    turn = pick(rng, draft.acting_turns())
    change = f"turn {turn}: {call.name}, which changes nothing, is called, too"
    return Mutated(draft.with_turn(turn, [*draft.turns[turn], call]).answer(), change)


def _mistake_first(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    turn, answer = pick(rng, draft.acting_turns()), draft.answer()
    answer[turn] = ["[no_such_function(a=1)]", *answer[turn]]
    return Mutated(answer, f"turn {turn}: first a call of a function that does not exist")


def _call_in_empty_turn(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    call = draft.reading_call()
    turn = pick(rng, (index for index, calls in enumerate(draft.turns) if not calls))
    answer = draft.with_turn(turn, [call]).answer()
    return Mutated(answer, f"turn {turn}: {call.name} is called where nothing is to be done")


def _last_turn_missing(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    return Mutated(draft.answer()[:-1], "the last turn is missing")


def _turn_added(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    return Mutated([*draft.answer(), [CLOSING]], "there is a turn more than was asked")


def _turn_without_calls(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    turn = pick(rng, draft.acting_turns())
    return Mutated(draft.with_turn(turn, []).answer(), f"turn {turn}: only words, no call")


def _call_lost(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    several = (place for place in draft.places() if len(draft.turns[place[0]]) > 1)
    turn, index, call = pick(rng, several)
    kept = [each for at, each in enumerate(draft.turns[turn]) if at != index]
    change = f"turn {turn}: the call of {call.name} is missing"
    return Mutated(draft.with_turn(turn, kept).answer(), change)


def _argument_changed(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    plain = (
        (place, key, value)
        for place in draft.places()
        for key, value in place[2].arguments.items()
        if isinstance(value, str | int | float)
    )
    (turn, index, call), key, value = pick(rng, plain)
    other = _other(value)
    changed = Call(call.name, {**call.arguments, key: other})
    change = f"turn {turn}: {call.name}, argument {key!r}: {value!r:.60} becomes {other!r:.60}"
    return Mutated(draft.with_call(turn, index, changed).answer(), change)


def _other(value: str | float) -> str | float:
    if isinstance(value, str):
        return f"{value}x"
    return not value if isinstance(value, bool) else value + 1


def _argument_missing(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    turn, index, call = pick(rng, (place for place in draft.places() if place[2].arguments))
    key = rng.choice(list(call.arguments))
    kept = {name: value for name, value in call.arguments.items() if name != key}
    shorter = draft.with_call(turn, index, Call(call.name, kept))
    return Mutated(shorter.answer(), f"turn {turn}: {call.name}, argument {key!r} is missing")


def _state_changed(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    require("mkdir" in {doc.name for doc in draft.task.functions})
    turn = pick(rng, draft.acting_turns())
    more = [*draft.turns[turn], Call("mkdir", {"dir_name": "nobody_asked"})]
    change = f"turn {turn}: mkdir makes a folder that nobody asked"
    return Mutated(draft.with_turn(turn, more).answer(), change)


def _call_repeated(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    turn, index, call = pick(rng, draft.places())
    calls = list(draft.turns[turn])
    calls.insert(index, call)
    return Mutated(draft.with_turn(turn, calls).answer(), f"turn {turn}: {call.name} called twice")


def _calls_reversed(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    turn = pick(rng, (index for index in draft.acting_turns() if len(draft.turns[index]) > 1))
    turned = draft.with_turn(turn, draft.turns[turn][::-1])
    return Mutated(turned.answer(), f"turn {turn}: the calls in reversed order")


def _turns_swapped(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    acting = draft.acting_turns()
    require(len(acting) > 1)
    first, second = sorted(rng.sample(acting, 2))
    swapped = draft.with_turn(first, draft.turns[second]).with_turn(second, draft.turns[first])
    return Mutated(swapped.answer(), f"the calls of turns {first} and {second} are exchanged")


def _turn_too_early(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    turn = pick(rng, (index for index in draft.acting_turns() if index > 0))
    early = draft.with_turn(turn - 1, [*draft.turns[turn - 1], *draft.turns[turn]])
    change = f"the calls of turn {turn} are made in turn {turn - 1}"
    return Mutated(early.with_turn(turn, []).answer(), change)


def _unclosed(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    turn, answer = pick(rng, draft.acting_turns()), draft.answer()
    answer[turn][0] = answer[turn][0][:-2]
    return Mutated(answer, f"turn {turn}: the last parenthesis is missing")


def _only_words(draft: MultiTurnDraft, rng: random.Random) -> Mutated:
    return Mutated([[CLOSING] for _ in draft.turns], "only words in every turn")


TURN_MUTATIONS = mutations_by_name(
    valid={
        "turns_canonical": _canonical,
        "turns_one_call_a_step": _one_call_a_step,
        "turns_no_closing_words": _no_closing_words,
        "turns_keyword_order": _keyword_order,
        "turns_reading_call": _reading_call,
    },
    lenient={
        "turns_mistake_first": _mistake_first,
        "turns_call_in_empty_turn": _call_in_empty_turn,
    },
    wrong={
        "turns_last_turn_missing": _last_turn_missing,
        "turns_turn_added": _turn_added,
        "turns_turn_without_calls": _turn_without_calls,
        "turns_call_lost": _call_lost,
        "turns_argument_changed": _argument_changed,
        "turns_argument_missing": _argument_missing,
        "turns_state_changed": _state_changed,
        "turns_call_repeated": _call_repeated,
        "turns_calls_reversed": _calls_reversed,
        "turns_swapped": _turns_swapped,
        "turns_too_early": _turn_too_early,
        "turns_unclosed": _unclosed,
        "turns_only_words": _only_words,
    },
)
"""Name -> mutation of a multi-turn answer."""
