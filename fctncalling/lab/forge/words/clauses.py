"""Clauses: one planned call in words, in one of the forms of the grammar.

Its slots are noun phrases or views of arguments: quantities with their unit, words for a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
    parsed_lines,
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
    """Return a call worded in one of the forms, None if no frame can say it.

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
    guarded = {guard.argument for guard in frame.guards if guard.test == "="}
    covered = set(guarded)
    text = fill_frame(frame.parts, call, nouns, covered)
    to_say = [call.arguments[name] for name in guarded & call.arguments.keys()]
    to_say = [value for value in to_say if value.provenance == "said_now"]
    if text is None or not all(says_value(strip_marks(text), value) for value in to_say):
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
    """Return a sentence with a call's access token, unless its turn has said it."""
    for name, value in call.arguments.items():
        if value.kind in _MAY_STAY_UNSAID and not _unsaid(name, value, nouns):
            added = _extra(name, call, nouns, sentence=True)
            return None if added is None else f"{added[1]}."
    return None


def _extra(
    name: str, call: PlannedCall, nouns: NounPhrases, *, sentence: bool
) -> tuple[str, str] | None:
    table = read_table("extras")
    name = next((key for key in (f"{call.function}.{name}", name) if key in table), "")
    if not name:
        return None
    how = "sentence" if sentence or nouns.draw.random() < 0.4 else "phrase"
    text = fill_frame(nouns.draw.choice(parsed_lines(table[name][how])), call, nouns)
    return None if text is None else (how, text)


def fill_frame(
    parts: Sequence, call: PlannedCall, nouns: NounPhrases, covered: set[str] | None = None
) -> str | None:
    """Return a frame's text with its slots filled, None if one cannot be."""
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
        text = slot_text(part, call, nouns)
        if text is None:
            return None
        texts.append(text)
        covered.update((part.argument, *_VIEWED.get(part.view, ())))
    return _SPACES.sub("", "".join(texts)).strip().replace(" of all the ", " of the ")


SETTING = tuple(
    "subject department colleague project event deliverable one_relative relatives relative "
    "place".split()
)
"""Phrases of the lexicon that stay the same through a task, each made of earlier ones only."""


def lexical(phrase: Phrase, draw: Random) -> str:
    """Return one wording of a phrase of the lexicon, or its mark ("<event>") if filled later."""
    if phrase.name in SETTING or phrase.name in ("aim", "noun", "value"):
        return f"<{phrase.name}>"
    return pattern_text(draw.choice(patterns("lexicon")[phrase.name]), draw)


def pattern_text(parts: Sequence, draw: Random) -> str:
    """Return a pattern of the lexicon as a text. Raises ValueError for one with an argument."""
    texts = []
    for part in expand_choices(parts, draw):
        if isinstance(part, FrameSlot):
            raise ValueError(f"the lexicon has no argument {part.argument!r}; write it in a frame")
        texts.append(lexical(part, draw) if isinstance(part, Phrase) else part)
    return "".join(texts).replace("  ", " ").strip()


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


def slot_text(slot: FrameSlot, call: PlannedCall, nouns: NounPhrases) -> str | None:
    """Return a slot's text, and that of the further arguments of its view."""
    value, view = call.arguments.get(slot.argument), slot.view
    if value is None or (view == "=" and nouns.is_blank(value)):
        return None
    match view[:1]:
        case "":
            return _doors(value, nouns) or nouns.phrase(value)
        case "!" | "=":
            return nouns.bare(value)
        case "'":
            return _possessive(nouns.phrase(value), nouns.bare(value))
        case ":":
            return _word_of_value(value, slot, nouns)
        case "+":
            return quantity_text(value, view[1:], nouns)
    if view == ".route":
        return _route(value, call, nouns)
    return _measured(value, call.arguments[_VIEWED[view][0]], nouns, *_MEASURED[view])


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


_VIEWED = {".quantity": ("unit_in",), ".sum": ("base_currency",), ".route": ("travel_to",)}
"""View of an argument -> the further arguments that it says."""
_MEASURED = {
    ".quantity": ("a certain number of", "that many {unit}"),
    ".sum": ("a certain sum in", "{way} (in {unit})"),
}
"""View of a number with its unit -> how one left out is said, and one that is pointed at."""


def _measured(
    value: Value, of_unit: Value, nouns: NounPhrases, vague: str, known: str
) -> str | None:
    unit = nouns.bare(of_unit)
    if unit is None:
        return None
    if nouns.is_blank(value):
        return f"{vague} {unit}"
    if (number := nouns.bare(value)) is not None:
        return f"{number} {unit}"
    way = nouns.reference(value)
    return way and known.format(way=way, unit=unit)


def _route(value: Value, call: PlannedCall, nouns: NounPhrases) -> str | None:
    """Return "from A to B", or how the route relates to the flight spoken of before."""
    goal = call.arguments["travel_to"]
    here, there = (nouns.spoken(each) is None for each in (value, goal))
    blank = nouns.is_blank(value) or nouns.is_blank(goal)
    last = nouns.facts.last_route(call, nouns.call_turn)
    route = (value.value, goal.value)
    if here and there and not blank and last in (route, route[::-1]):
        ways = _SAME_ROUTE if last == route else _WAY_BACK
        return nouns.draw.choice(ways)
    start, end = nouns.phrase(value), nouns.phrase(goal)
    return None if start is None or end is None else f"from {start} to {end}"


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
