"""Clauses: one planned call in words, in one of the forms of the grammar.

Its slots are noun phrases or views of arguments: quantities with their unit, words for a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random

from fctncalling.lab.forge.plan import PlannedCall, Value
from fctncalling.lab.forge.words.grammar import (
    Frame,
    FrameSlot,
    Phrase,
    Sequence,
    expand_choices,
    frames,
    guards_allow,
    list_text,
    mark_literal,
    parse,
    patterns,
    read_table,
    strip_marks,
)
from fctncalling.lab.forge.words.noun_phrases import NounPhrases
from fctncalling.lab.forge.words.turn_check import arguments_of, says_value
from fctncalling.lab.own_api.english import plural

_MAY_STAY_UNSAID = frozenset({"access_token"})
_CLOSED = frozenset({"say", "ask", "know"})  # forms that take nothing behind them
_TRIES = 4  # frames of one form
_SPACES = re.compile(" +(?=[ ,])")


@dataclass(frozen=True)
class Clause:
    """One request in words."""

    form: str
    text: str
    frame: Frame
    sentences: tuple[str, ...] = ()  # arguments that follow in sentences of their own


def clause(
    call: PlannedCall, forms: Iterable[str], nouns: NounPhrases, used: frozenset[Frame]
) -> Clause | None:
    """Return a call worded in one of the forms, None where no frame can say it.

    Frames that were `used` before are taken only where nothing else is left.
    """
    before = list(nouns.discourse.mentions)
    for frame in _in_order(call, forms, nouns, used):
        made = _worded(frame, call, nouns)
        if made is not None:
            return made
        nouns.discourse.mentions[:] = before
    return None


def _in_order(
    call: PlannedCall, forms: Iterable[str], nouns: NounPhrases, used: frozenset[Frame]
) -> Iterator[Frame]:
    """Yield frames to try, form by form; those for a request without its value mostly first."""
    values, kinds = arguments_of(call), _kinds(call, nouns)
    fitting = {
        form: [each for each in frames()[call.function][form] if guards_allow(each, values, kinds)]
        for form in forms
    }
    if any(kind == "blank" for kind in kinds.values()) and nouns.draw.random() < 0.8:
        for_blank = [each for options in fitting.values() for each in options if each.is_for_blank]
        nouns.draw.shuffle(for_blank)
        yield from for_blank
    for options in fitting.values():
        nouns.draw.shuffle(options)
        options.sort(key=used.__contains__)
        yield from options[:_TRIES]


def aim_clause(call: PlannedCall, nouns: NounPhrases) -> str | None:
    """Return a purpose of a call in words, None if none is listed."""
    values, kinds = arguments_of(call), _kinds(call, nouns)
    options = [each for each in frames()[call.function]["aim"] if guards_allow(each, values, kinds)]
    return fill_frame(nouns.draw.choice(options).parts, call, nouns) if options else None


def _kinds(call: PlannedCall, nouns: NounPhrases) -> dict[str, str]:
    kinds = {name: value.said_kind or value.kind for name, value in call.arguments.items()}
    if (value := call.arguments.get("destination")) is not None:
        kinds["destination"] = "folder" if nouns.facts.kind_of(value) == "folder" else "file"
    blanks = {name: "blank" for name, value in call.arguments.items() if nouns.is_blank(value)}
    return {**kinds, **blanks}


def _worded(frame: Frame, call: PlannedCall, nouns: NounPhrases) -> Clause | None:
    covered = {guard.argument for guard in frame.guards if guard.test == "="}
    text = fill_frame(frame.parts, call, nouns, covered)
    if text is None:
        return None
    guarded = [guard.argument for guard in frame.guards if guard.test == "="]
    if not all(_said_by(text, argument, call) for argument in guarded):
        return None
    sentences: list[str] = []
    added_to = False
    for name, value in call.arguments.items():
        if name in covered or _unsaid(name, value, nouns):
            continue
        added = _extra(name, call, nouns, sentence=frame.form in _CLOSED)
        if added is None:
            return None
        how, words = added
        if how == "phrase":
            comma = added_to or " with " in text or words.startswith(("paid", "charged"))
            text = f"{text}{', ' if comma else ' '}{words}"
            added_to = True
        else:
            sentences.append(words)
    return Clause(frame.form, text, frame, tuple(sentences))


def _said_by(text: str, argument: str, call: PlannedCall) -> bool:
    """Tell whether a text says the argument that a guard covers, where the plan wants it said."""
    value = call.arguments.get(argument)
    if value is None or value.provenance != "said_now":
        return True
    return says_value(strip_marks(text), value)


def _unsaid(name: str, value: Value, nouns: NounPhrases) -> bool:
    """Tell whether the words may leave an argument to the reader."""
    if nouns.is_blank(value):
        return True
    if value.kind in _MAY_STAY_UNSAID:
        said = value.provenance in ("said_now", "inferred")
        return not said or nouns.discourse.said_in(nouns.turn, value.value)
    if value.provenance == "inferred":
        return value.said is None
    return value.provenance == "flag" and value.value in (False, None)


def token_sentence(call: PlannedCall, nouns: NounPhrases) -> str | None:
    """Return a sentence with a call's access token where no words of its turn said it yet."""
    for name, value in call.arguments.items():
        if value.kind in _MAY_STAY_UNSAID and not _unsaid(name, value, nouns):
            added = _extra(name, call, nouns, sentence=True)
            return None if added is None else f"{added[1]}."
    return None


def _extra(
    name: str, call: PlannedCall, nouns: NounPhrases, *, sentence: bool
) -> tuple[str, str] | None:
    entry = _extras().get(f"{call.function}.{name}") or _extras().get(name)
    if entry is None:
        return None
    how = "sentence" if sentence or nouns.draw.random() < 0.4 else "phrase"
    text = fill_frame(nouns.draw.choice(entry[how]), call, nouns)
    return None if text is None else (how, text)


@cache
def _extras() -> dict[str, dict[str, tuple[Sequence, ...]]]:
    return {
        name: {how: tuple(parse(line.strip()) for line in text.strip().splitlines())
               for how, text in entry.items()}
        for name, entry in read_table("extras").items()
    }  # fmt: skip


def fill_frame(
    parts: Sequence, call: PlannedCall, nouns: NounPhrases, covered: set[str] | None = None
) -> str | None:
    """Return a frame's text with its slots filled, None where one cannot be."""
    covered = set() if covered is None else covered
    texts = []
    for part in expand_choices(parts, nouns.draw):
        if isinstance(part, str):
            texts.append(part)
            continue
        if isinstance(part, Phrase):
            texts.append(nouns.place if part.name == "place" else lexical(part, nouns.draw))
            continue
        nouns.before = "".join(texts)
        found = slot_text(part, call, nouns)
        if found is None:
            return None
        texts.append(found[0])
        covered.update((part.argument, *found[1]))
    return _SPACES.sub("", "".join(texts)).strip().replace(" of all the ", " of the ")


SETTING = tuple(
    "subject department colleague project event deliverable one_relative relatives relative "
    "place".split()
)
"""Phrases of the lexicon that stay the same through a task, each made of earlier ones only."""


def lexical(phrase: Phrase, draw: Random) -> str:
    """Return one wording of a phrase of the lexicon; of what others fill in its mark, "<event>"."""
    if phrase.name in SETTING or phrase.name in ("aim", "noun", "value"):
        return f"<{phrase.name}>"
    return pattern_text(draw.choice(patterns("lexicon")[phrase.name]), draw)


def pattern_text(parts: Sequence, draw: Random) -> str:
    """Return a pattern of the lexicon as a text."""
    return "".join(_texts(parts, draw)).replace("  ", " ").strip()


def _texts(parts: Sequence, draw: Random) -> Iterator[str]:
    for part in expand_choices(parts, draw):
        if isinstance(part, FrameSlot):
            raise ValueError(f"the lexicon has no argument {part.argument!r}; write it in a frame")
        yield lexical(part, draw) if isinstance(part, Phrase) else part


Viewed = tuple[str, tuple[str, ...]] | None
"""A text and the further arguments that it says; None where it cannot be said so."""
View = Callable[[Value, PlannedCall, NounPhrases], Viewed]

_DOORS = {
    "driver": "driver's door",
    "passenger": "passenger door",
    "rear_left": "rear left door",
    "rear_right": "rear right door",
}
_SAME_ROUTE = ("on the same route", "on that same route", "between the same two cities")
_WAY_BACK = ("in the opposite direction", "on the same route the other way round")
_UNITS = {
    "line_count": "line",
    "share_count": "share",
    "percent": "percent",
    "gallons": "gallon",
    "liters": "liter",
    "miles": "mile",
    "meters": "meter",
    "temperature": "degree",
}


def slot_text(slot: FrameSlot, call: PlannedCall, nouns: NounPhrases) -> Viewed:
    """Return a slot's text and the further arguments that it mentions."""
    value = call.arguments.get(slot.argument)
    if value is None:
        return None
    if slot.view == "":
        return _alone(_doors(value, nouns) or nouns.phrase(value))
    if slot.view == "!" or (slot.view == "=" and not nouns.is_blank(value)):
        return _alone(nouns.bare(value))
    if slot.view == "=":
        return None
    if slot.view == "'s":
        return _alone(_possessive(nouns.phrase(value), nouns.bare(value)))
    if slot.view == ":":
        return _alone(_word_of_value(value, slot, nouns))
    if slot.view[0] == "+":
        return _alone(quantity_text(value, slot.view[1:], nouns))
    return _VIEWS[slot.view[1:]](value, call, nouns)


def _alone(text: str | None) -> Viewed:
    return None if text is None else (text, ())


def _possessive(text: str | None, bare: str | None) -> str | None:
    if text is None or (bare is not None and re.search(r"['\"”]\W*$", text)):
        return bare and f"{bare}'s"
    if text in ("it", "them"):
        return "its" if text == "it" else "their"
    return f"{text}'s"


def _word_of_value(value: Value, slot: FrameSlot, nouns: NounPhrases) -> str | None:
    if nouns.is_blank(value) or value.provenance not in ("said_now", "flag", "inferred"):
        return None
    word = dict(slot.words).get(str(value.value))
    if word is None or (value.provenance == "said_now" and str(value.value) not in word.lower()):
        return None
    return mark_literal(word)


def quantity_text(value: Value, unit: str, nouns: NounPhrases) -> str | None:
    """Return a number with its unit, in the unit in which the user knows it."""
    if nouns.left_out(value) is not None:
        vague = nouns.phrase(value)
        return vague and f"{vague} {plural(unit)}"
    spoken = nouns.spoken(value)
    if spoken is None:
        way = nouns.reference(value)
        near = way is not None and way.startswith(("that ", "this ", "it", "the same "))
        return f"that many {plural(unit)}" if near else way
    said, kind = spoken
    if kind != value.kind and kind in ("liters", "gallons", "miles"):
        unit = kind[:-1]
    elif isinstance(said, str):
        return None
    number = nouns.bare(value)
    return number and f"{number} {unit if said == 1 else plural(unit)}"


def _measured(argument: str, vague: str, known: str) -> View:
    """Return a view of a number with its unit: that left out is vague, that known is pointed at."""

    def view(value: Value, call: PlannedCall, nouns: NounPhrases) -> Viewed:
        unit = nouns.bare(call.arguments[argument])
        if unit is None:
            return None
        if nouns.is_blank(value):
            return f"{vague} {unit}", (argument,)
        number = nouns.bare(value)
        if number is not None:
            return f"{number} {unit}", (argument,)
        way = nouns.reference(value)
        return None if way is None else (known.format(way=way, unit=unit), (argument,))

    return view


def _route(value: Value, call: PlannedCall, nouns: NounPhrases) -> Viewed:
    """Return "from A to B", or how the route relates to the flight spoken of before."""
    goal = call.arguments["travel_to"]
    here, there = (nouns.spoken(each) is None for each in (value, goal))
    blank = nouns.is_blank(value) or nouns.is_blank(goal)
    last = nouns.facts.last_route(call, nouns.call_turn)
    route = (value.value, goal.value)
    if here and there and not blank and last in (route, route[::-1]):
        ways = _SAME_ROUTE if last == route else _WAY_BACK
        return nouns.draw.choice(ways), ("travel_to",)
    start, end = nouns.phrase(value), nouns.phrase(goal)
    return None if start is None or end is None else (f"from {start} to {end}", ("travel_to",))


def _doors(value: Value, nouns: NounPhrases) -> str | None:
    """Return a list of the car's doors, None for anything else."""
    if value.kind != "door" or nouns.is_blank(value) or not isinstance(value.value, list):
        return None
    if value.provenance in ("result", "said_before"):
        return None
    if set(value.value) == set(_DOORS) and value.provenance != "said_now":
        return nouns.draw.choice(("all four doors", "all the doors", "all of the car's doors"))
    if value.provenance == "state":
        return None
    names = [str(_DOORS.get(door, door)) for door in value.value]
    return list_text([f"the {mark_literal(name)}" for name in names], nouns.draw)


def value_phrase(value: Value, nouns: NounPhrases, *, with_unit: bool) -> str | None:
    """Return a value by itself, as an answer to a question about it."""
    if with_unit and value.kind in _UNITS and not isinstance(value.said, str):
        return quantity_text(value, _UNITS[value.kind], nouns)
    if value.kind == "travel_class":
        return f"{nouns.bare(value)} class"
    doors = _doors(value, nouns)
    priced = with_unit and value.kind in ("amount", "price")
    return doors or (nouns.phrase(value) if priced else nouns.bare(value))


_VIEWS: dict[str, View] = {
    "quantity": _measured("unit_in", "a certain number of", "that many {unit}"),
    "sum": _measured("base_currency", "a certain sum in", "{way} (in {unit})"),
    "route": _route,
}
