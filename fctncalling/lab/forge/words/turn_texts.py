"""User texts of a plan, turn by turn, by the grammar that words the requests of any API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random
from typing import Any, NamedTuple

from fctncalling.data.types import FunctionDoc
from fctncalling.lab.forge.multi_turn.dials import FUNCTIONS
from fctncalling.lab.forge.plan import AGAIN, Plan, PlannedCall, PlannedTurn, Value
from fctncalling.lab.forge.words.turn_check import faults_of, says_value
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


Condition = tuple[str, bool, str]
"""Argument, and whether it has to be equal to a value."""


class FunctionPhrases(NamedTuple):
    """A function with the clauses for its arguments, and its phrases by mood.

    A table of `frames/*.toml` is named by the function and conditions: "lockDoors unlock=True". An
    aim is what somebody is after beyond the call.
    """

    words: FunctionWords
    by_mood: Mapping[str, Sequence[RequestFrame]]
    conditions: Mapping[str, Sequence[Condition]]  # of the phrases of each table


@cache
def function_phrases(function: str) -> FunctionPhrases:
    """Return the phrases of a function."""
    owner, names = FUNCTIONS[function].owner, FUNCTIONS[function].takes
    tables = read_table(f"frames/{owner}").items()
    own = {key: dict(table) for key, table in tables if key.split()[0] == function}
    aims = {key: {"want": table.pop("aim")} for key, table in own.items() if "aim" in table}
    phrases: dict[str, list[RequestFrame]] = {"aim": []}
    every = [f for each in _frames(own, names, owner) for f in each]
    for frame in every:
        phrases.setdefault(frame.mood, []).append(frame)
        if frame.mood == "do" and not _TOLD.search(frame.text):  # "I'd like to lock the doors"
            phrases.setdefault("want", []).append(replace(frame, mood="want"))
    phrases["aim"] += [f for each in _frames(aims, names, owner) for f in each]
    kind = ArgumentKind("string", "free_text")  # all values come in words
    doc, clauses = FunctionDoc(function, "", {}), clauses_of_frames(every)
    words = FunctionWords(doc, dict.fromkeys(names, kind), clauses=clauses)
    return FunctionPhrases(words, phrases, {table: _conditions(table) for table in (*own, *aims)})


def _frames(
    tables: Mapping[str, Any], names: Mapping[str, str], owner: str
) -> Iterator[Sequence[RequestFrame]]:
    yield from frames_of_tables(tables, dict.fromkeys(tables, names), f"{owner}.toml").values()


def _conditions(table: str) -> Sequence[Condition]:
    found = [re.split("(!?=)", text) for text in table.split()[1:]]
    return [(name, sign == "=", value) for name, sign, value in found]


def user_texts(plan: Plan, variation: int = 0) -> list[str]:
    """Return the user's words, one text a message, "" where only a function is offered.

    The same for the same plan and variation. CannotSay names a turn for which no frame fits.
    """
    rng = Random(f"{plan.seed}/words/{variation}")
    quotation_mark = rng.choice(("'", "'", '"'))
    mentions, used, texts = list[Mention](), set[str](), list[str]()
    for index, (number, is_second) in enumerate(plan.messages):
        turn = plan.turns[number]
        if is_second and turn.held_back:
            texts.append("")
            continue
        for _ in range(TRIES):
            words = ValueWords(plan, index, [*mentions], rng, quotation_mark)
            phrases = {*used}
            text = _turn_text(turn, words, phrases, is_second=is_second)
            text = _CLOSED_QUOTATION.sub(r"\1", text.replace(MARK, ""))
            greets = index and text.startswith(_GREETINGS)  # nobody does in the middle of a talk
            if text and not greets and not faults_of(text, turn, is_second=is_second):
                mentions, used = words.mentions, phrases
                break
        else:
            raise CannotSay(f"plan {plan.seed}: no words for message {index}: {turn}")
        texts.append(text)
    return texts


def _turn_text(turn: PlannedTurn, words: ValueWords, used: set[str], *, is_second: bool) -> str:
    """Return words of a turn, not yet checked; "" if some call has none."""
    if turn.blank is not None:
        call = turn.calls[turn.blank[0]]
        value = call.arguments[turn.blank[1]]
        if is_second:
            return _supplement(value, call, words)
        words.blank = value
    said = list[SaidCall]()
    for index, call in enumerate(turn.calls):
        if call.purpose == "asked" or _has_words(turn, words.turn, index):
            made = _call_in_words(call, words, used)
            if made is None:
                return ""
            said.append(made)
            words.note_result(call, index)
    values = [value for call in turn.calls for value in call.arguments.values()]
    tokens = (e.words for e in values if e.kind == "access_token" and not words.is_blank(e))
    for token in filter(None, dict.fromkeys(tokens)):
        sentence = f"{words.rng.choice(('my', 'the'))} access token is {MARK}{token}"
        said[-1] = replace(said[-1], sentences=(*said[-1].sentences, sentence))
    return request_text(said, words.rng)


def _supplement(value: Value, call: PlannedCall, words: ValueWords) -> str:
    """Return a sentence that says the value and its noun."""
    rng, kind = words.rng, kind_words(value.kind)
    said = literal(*(words.spoken(value) or (value.value, value.kind)), words.mark, rng)
    if isinstance(value.value, int | float) and "base_currency" in call.arguments:
        said = number_text(value.value)
    elif value.kind == "travel_class":
        said = f"{said} class"
    words.mentioned(value, said)
    text = rng.choice(result_frames()["missing"]).text
    return framed_text(
        f"{text.replace('{noun}', kind.noun).replace('{value}', said)}.", "plain", rng
    )


def _has_words(turn: PlannedTurn, number: int, index: int) -> bool:
    """Tell whether a needed step has a value that only words about itself would say."""
    rest = [call for at, call in enumerate(turn.calls) if at != index]
    others = [value for call in rest for value in call.arguments.values()]
    arguments = turn.calls[index].arguments.values()
    said = [e.words for e in arguments if e.words is not None and e.kind != "access_token"]
    if all(any(other.words == each for other in others) for each in said):
        return False
    place = (number, index)
    taken = [v for v in others if v.provenance == "result" and v.kind != "access_token"]
    return all((value.source.turn, value.source.call) != place for value in taken)


def _call_in_words(call: PlannedCall, words: ValueWords, used: set[str]) -> SaidCall | None:
    """Return a call in words, None if no phrase can say it; `used` ones come last."""
    traits = {name: _traits(value, words) for name, value in call.arguments.items()}
    phrases = function_phrases(call.function)
    holding = {
        table
        for table, conditions in phrases.conditions.items()
        if all((value in traits.get(name, {""})) is equal for name, equal, value in conditions)
    }
    fitting = {
        mood: [f for f in frames if f.function in holding and traits.keys() >= {*f.parameters}]
        for mood, frames in phrases.by_mood.items()
    }
    for frame in islice(_drawn_phrases(fitting, used, words.rng), FRAMES):
        mentions = list(words.mentions)
        if (made := _said(frame, call, words)) is not None:
            used.add(frame.key)
            return _with_aim(made, fitting["aim"], words.rng)
        words.mentions[:] = mentions
    return None


def _traits(value: Value, words: ValueWords) -> set[str]:
    """Return what conditions of phrases may ask of an argument."""
    if words.is_blank(value):
        return {"blank"}
    traits = (number_text(value.value), str(value.words), value.said_kind, value.kind)
    return {*traits, value.provenance}


def _drawn_phrases(
    fitting: Mapping[str, Sequence[RequestFrame]], used: set[str], rng: Random
) -> Iterator[RequestFrame]:
    moods = [each for each in _MOODS if fitting.get(each)]
    while moods:
        mood = rng.choices(moods, [_MOODS[each] for each in moods])[0]
        frame = rng.choice(fitting[mood])
        if frame.key not in used:
            yield frame


def _with_aim(said: SaidCall, aims: Sequence[RequestFrame], rng: Random) -> SaidCall:
    """Return a call in words, now and then with what somebody is after."""
    if not aims or rng.random() >= AIM_SHARE:
        return said
    aim = rng.choice(aims).text
    if said.mood in ("do", "want") and "?" not in said.phrase and rng.random() < 0.6:
        return replace(said, phrase=said.phrase + rng.choice(_AIMS_WITHIN).format(aim))
    return replace(said, sentences=(*said.sentences, rng.choice(_AIMS_BEHIND).format(aim)))


_ROUTE = "from {travel_from} to {travel_to}"
_SAME_ROUTE = ("on the same route", "on that same route", "between the same two cities")


def _said(frame: RequestFrame, call: PlannedCall, words: ValueWords) -> SaidCall | None:
    """Return a call said by a phrase and the clauses of its other arguments, if that can be."""
    function, _, conditions = function_phrases(call.function)
    left = {name for name, _, _ in conditions[frame.function]}
    ends = [call.arguments[name] for name in ("travel_from", "travel_to") if _ROUTE in frame.text]
    if ends and all(value.said_kind == AGAIN for value in ends):
        frame = replace(frame, text=frame.text.replace(_ROUTE, words.rng.choice(_SAME_ROUTE)))
        left |= {"travel_from", "travel_to"}
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
    if not all(says_value(said.phrase, each) for each in told if each.words is not None):
        return None
    phrase = _PARTED.sub(r"\1 \3 \2", said.phrase)  # "call it off"
    return replace(said, phrase=re.sub(r"\bit's\b", "its", phrase))


def _may_stay_unsaid(value: Value, words: ValueWords) -> bool:
    """Tell whether the phrase of a call may leave an argument to the reader."""
    if words.is_blank(value) or value.kind == "access_token":
        return True
    if value.provenance == "inferred":
        return value.said is None
    return value.provenance == "flag" and value.value in (False, None)
