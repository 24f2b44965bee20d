"""User texts of a plan, turn by turn, by the grammar that words the requests of any API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from random import Random
from typing import Any

from fctncalling.data.types import FunctionDoc
from fctncalling.lab.forge.multi_turn.dials import CLASS_OF, KINDS_OF
from fctncalling.lab.forge.plan import Plan, PlannedCall, PlannedTurn, Value
from fctncalling.lab.forge.words.turn_check import faults_of, must_be_said, says_value
from fctncalling.lab.forge.words.value_words import (
    MARK,
    Mention,
    ValueWords,
    kind_words,
    literal,
    number_text,
    read_table,
    result_frames,
)
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.frames import RequestFrame, clauses_of_frames, frames_of_tables
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.request_text import (
    SaidCall,
    framed_text,
    request_text,
    said_call,
)
from fctncalling.lab.own_api.words.spoken_values import WordedValue
from fctncalling.lab.own_api.words.vocabulary import register_table_phrases

TRIES = 14  # wordings of one turn before the plan is given up
FRAMES = 20  # phrases tried for one call
AIM_SHARE = 0.4
_AIMS_WITHIN = (" so that I can {}", ", so I can {}", " to help me {}", " because I want to {}")
_AIMS_BEHIND = (
    *("I want to {}", "that way I can {}", "I am trying to {}", "it is time to {}"),
    *("that helps me to {}", "somebody told me to {}", "the idea is to {}", "I have to {}"),
)
_MOODS = {"do": 5.0, "want": 1.5, "say": 3.0, "ask": 3.0}
_GREETINGS = register_table_phrases("frame")["greetings"]
_CLOSED_QUOTATION = re.compile(r"([.!?]['\"])\.(?= |$)")
_PARTED = re.compile(r"\b(\w+) (up|back|off|out|away|down) (it|them)\b")
_TOLD = re.compile(r"\b(?:me|tell|remind|report|inform)\b")  # nobody wants to tell themselves


class CannotSay(Exception):
    """Signal that no wording says a turn of a plan truthfully; the plan is thrown away."""


@dataclass(frozen=True, eq=False)
class ConditionalFrame:
    """A phrase, and what has to hold of the arguments for it: (argument, is equal, value)."""

    frame: RequestFrame
    mood: str  # do, want, say, ask, or aim: what somebody is after beyond the call
    conditions: tuple[tuple[str, bool, str], ...]


@cache
def function_phrases(function: str) -> tuple[FunctionWords, Sequence[ConditionalFrame]]:
    """Return a function with the clauses for its arguments, and its phrases.

    A table of `frames/*.toml` is named by the function and conditions: "lockDoors unlock=True".
    """
    tables = {
        key: dict(table)
        for key, table in read_table(f"frames/{CLASS_OF[function]}").items()
        if key.split()[0] == function
    }
    aims = {key: {"want": table.pop("aim")} for key, table in tables.items() if "aim" in table}
    names = KINDS_OF[function]
    where = f"{CLASS_OF[function]}.toml"
    frames = frames_of_tables(tables, dict.fromkeys(tables, names), where)
    clauses = clauses_of_frames([each for own in frames.values() for each in own])
    kind = ArgumentKind("string", "free_text")  # all values come in words
    words = FunctionWords(
        FunctionDoc(function, "", {}), dict.fromkeys(names, kind), clauses=clauses
    )
    found = list(_conditional(frames))
    wishes = [replace(each, mood="want") for each in found if _may_be_wish(each)]
    of_aims = _conditional(frames_of_tables(aims, dict.fromkeys(aims, names), where))
    return words, [*found, *wishes, *(replace(each, mood="aim") for each in of_aims)]


def _conditional(frames: Mapping[str, Sequence[RequestFrame]]) -> Iterator[ConditionalFrame]:
    for key, own in frames.items():
        conditions = tuple(map(_condition, key.split()[1:]))
        for frame in own:
            if not frame.says:
                yield ConditionalFrame(frame, frame.mood, conditions)


def _condition(text: str) -> tuple[str, bool, str]:
    name, sign, value = re.split("(!?=)", text)
    return name, sign == "=", value


def _may_be_wish(each: ConditionalFrame) -> bool:
    """Return whether an order can be said as a wish: "I'd like to lock the doors"."""
    return each.mood == "do" and not _TOLD.search(each.frame.text)


def user_texts(plan: Plan, variation: int = 0) -> list[str]:
    """Return the user's words, one text a message, "" where only a function is offered.

    The same for the same plan and variation. CannotSay names a turn for which no frame fits.
    """
    writer = _TaskWriter(plan, Random(f"{plan.seed}/words/{variation}"))
    return [writer.text(index) for index in range(len(plan.messages))]


class _TaskWriter:
    """Writer of one task's words; keeps what was mentioned and the phrases used."""

    def __init__(self, plan: Plan, rng: Random) -> None:
        self._plan = plan
        self._rng = rng
        self._quotation_mark = rng.choice(("'", "'", '"'))
        self._mentions: list[Mention] = []
        self._used: set[ConditionalFrame] = set()

    def text(self, index: int) -> str:
        """Return the words of a message, the first of several draws that are true."""
        number, is_second = self._plan.messages[index]
        turn = self._plan.turns[number]
        if is_second and turn.held_back:
            return ""
        for _ in range(TRIES):
            mentions = list(self._mentions)
            words = ValueWords(self._plan, index, mentions, self._rng, self._quotation_mark)
            used = set(self._used)
            text = self._drawn(turn, words, used, is_second=is_second)
            if text is None or (index and text.startswith(_GREETINGS)):
                continue  # nobody greets in the middle of a talk
            text = _CLOSED_QUOTATION.sub(r"\1", text.replace(MARK, ""))
            if not faults_of(text, turn, is_second=is_second):
                self._mentions, self._used = mentions, used
                return text
        raise CannotSay(f"plan {self._plan.seed}: no words for message {index}: {turn}")

    def _drawn(
        self, turn: PlannedTurn, words: ValueWords, used: set[ConditionalFrame], *, is_second: bool
    ) -> str | None:
        if turn.blank is not None:
            call = turn.asked[turn.blank[0]]
            value = call.arguments[turn.blank[1]]
            if is_second:
                return _supplement(value, call, words)
            words.blank = value
        said = list[SaidCall]()
        for index, call in enumerate(turn.asked):
            if call.purpose == "asked" or _has_words(turn, words.turn, index):
                made = _call_in_words(call, words, used)
                if made is None:
                    return None
                said.append(made)
                words.note_result(call.function, index)
        values = (value for call in turn.asked for value in call.arguments.values())
        tokens = (e for e in values if e.kind == "access_token" and must_be_said(e))
        for token in dict.fromkeys(each.value for each in tokens if not words.is_blank(each)):
            sentence = f"{words.rng.choice(('my', 'the'))} access token is {MARK}{token}"
            said[-1] = replace(said[-1], sentences=(*said[-1].sentences, sentence))
        return request_text(said, words.rng)


def _supplement(value: Value, call: PlannedCall, words: ValueWords) -> str:
    """Return a sentence that says the value and its noun."""
    rng, spoken = words.rng, words.spoken(value) or (value.value, value.kind)
    said = literal(*spoken, words.mark, rng)
    if isinstance(value.value, int | float) and "base_currency" in call.arguments:
        said = number_text(value.value)
    elif value.kind == "travel_class":
        said = f"{said} class"
    kind = kind_words(value.kind)
    many = isinstance(value.value, list) and len(value.value) > 1
    noun = kind.plural or kind.noun if many else kind.noun
    words.mentioned(value, said)
    text = rng.choice(result_frames()["missing"]).text
    return framed_text(f"{text.replace('{noun}', noun).replace('{value}', said)}.", "plain", rng)


def _has_words(turn: PlannedTurn, number: int, index: int) -> bool:
    """Tell whether a needed step has a value that only words about itself would say."""
    rest = [call for at, call in enumerate(turn.asked) if at != index]
    others = [value for call in rest for value in call.arguments.values()]
    arguments = turn.asked[index].arguments.values()
    said = [e.said for e in arguments if must_be_said(e) and e.kind != "access_token"]
    if all(any(other.said == each for other in others) for each in said):
        return False
    return not any(
        value.provenance == "result"
        and value.kind != "access_token"
        and value.source is not None
        and (value.source.turn, value.source.call) == (number, index)
        for value in others
    )


def _call_in_words(
    call: PlannedCall, words: ValueWords, used: set[ConditionalFrame]
) -> SaidCall | None:
    """Return a call in words, None if no phrase can say it; `used` ones come last."""
    _, phrases = function_phrases(call.function)
    traits = {name: _traits(value, words) for name, value in call.arguments.items()}
    fitting: dict[str, list[ConditionalFrame]] = {}
    for each in phrases:
        if {*each.frame.parameters} <= traits.keys() and all(
            (value in traits.get(name, {""})) is equal for name, equal, value in each.conditions
        ):
            fitting.setdefault(each.mood, []).append(each)
    for each in islice(_drawn_phrases(fitting, used, words.rng), FRAMES):
        mentions = list(words.mentions)
        if (made := _said(each, call, words)) is not None:
            used.add(each)
            return _with_aim(made, fitting.get("aim", ()), words.rng)
        words.mentions[:] = mentions
    return None


def _drawn_phrases(
    fitting: Mapping[str, Sequence[ConditionalFrame]], used: set[ConditionalFrame], rng: Random
) -> Iterator[ConditionalFrame]:
    moods = [each for each in _MOODS if each in fitting]
    while moods:
        mood = rng.choices(moods, [_MOODS[each] for each in moods])[0]
        each = rng.choice(fitting[mood])
        if each not in used:
            yield each


def _with_aim(said: SaidCall, aims: Sequence[ConditionalFrame], rng: Random) -> SaidCall:
    """Return a call in words, now and then with what somebody is after."""
    if not aims or rng.random() >= AIM_SHARE:
        return said
    aim = rng.choice(aims).frame.text
    if said.mood in ("do", "want") and "?" not in said.phrase and rng.random() < 0.6:
        return replace(said, phrase=said.phrase + rng.choice(_AIMS_WITHIN).format(aim))
    return replace(said, sentences=(*said.sentences, rng.choice(_AIMS_BEHIND).format(aim)))


def _traits(value: Value, words: ValueWords) -> set[str]:
    """Return what conditions of phrases may ask of an argument."""
    if words.is_blank(value):
        return {"blank"}
    traits = (number_text(value.value), str(value.said), value.said_kind, value.kind)
    return {*traits, value.provenance}


_ROUTE = "from {travel_from} to {travel_to}"
_SAME_ROUTE = ("on the same route", "on that same route", "between the same two cities")
_WAY_BACK = ("in the opposite direction", "on the same route the other way round")


def _said(each: ConditionalFrame, call: PlannedCall, words: ValueWords) -> SaidCall | None:
    """Return a call said by a phrase and the clauses of its other arguments, if that can be."""
    function, _ = function_phrases(call.function)
    frame = replace(each.frame, mood=each.mood)
    if _ROUTE in frame.text and (ways := _known_route(call, words)):
        frame = replace(frame, text=frame.text.replace(_ROUTE, words.rng.choice(ways)))
        left = {"travel_from", "travel_to"}
    else:
        left = set()
    left |= {name for name, _, _ in each.conditions}
    texts: dict[str, Any] = {}
    for name, value in call.arguments.items():
        slot = f"{{{name}}}"
        if slot in frame.text:
            text = words.text(value, *frame.text.split(slot, 1))
        elif name in left or _may_stay_unsaid(value, words):
            continue
        else:
            text = words.text(value) if name in (function.clauses or {}) else None
        if text is None:
            return None
        texts[name] = WordedValue(text)
    said = said_call(function, frame, texts, words.rng)
    told = [call.arguments[name] for name in left & call.arguments.keys() - texts.keys()]
    if not all(says_value(said.phrase, each) for each in told if must_be_said(each)):
        return None
    phrase = _PARTED.sub(r"\1 \3 \2", said.phrase)  # "call it off"
    return replace(said, phrase=re.sub(r"\bit's\b", "its", phrase))


def _known_route(call: PlannedCall, words: ValueWords) -> Sequence[str]:
    """Return how a route relates to the flight spoken of before; () if it is not told by that."""
    ends = [call.arguments[name] for name in ("travel_from", "travel_to")]
    if any(words.is_blank(each) or words.spoken(each) is not None for each in ends):
        return ()
    route, last = [each.value for each in ends], list[Any]()
    for _, other in words.calls_so_far():
        if other is call or other.arguments == call.arguments:
            break
        if {"travel_from", "travel_to"} <= other.arguments.keys():
            last = [other.arguments[name].value for name in ("travel_from", "travel_to")]
    return _SAME_ROUTE if last == route else _WAY_BACK if last == route[::-1] else ()


def _may_stay_unsaid(value: Value, words: ValueWords) -> bool:
    """Tell whether the phrase of a call may leave an argument to the reader."""
    if words.is_blank(value) or value.kind == "access_token":
        return True
    if value.provenance == "inferred":
        return value.said is None
    return value.provenance == "flag" and value.value in (False, None)
