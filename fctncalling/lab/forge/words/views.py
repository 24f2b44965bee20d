"""Views of arguments: quantities with their unit, sums with their currency, words per value."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fctncalling.lab.forge.plan import PlannedCall, Value
from fctncalling.lab.forge.words.grammar import FrameSlot, kind_words
from fctncalling.lab.forge.words.literals import list_text, mark_literal, number_text, quote_text
from fctncalling.lab.forge.words.noun_phrases import NounPhrases
from fctncalling.lab.own_api.english import plural

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


_FIELD_NAMES = {"created_by": "author"}  # of a ticket, where people say another word


def slot_text(slot: FrameSlot, call: PlannedCall, nouns: NounPhrases) -> Viewed:
    """Return what stands in a slot, and the further arguments that it says."""
    value = call.arguments.get(slot.argument)
    if value is None:
        return None
    if slot.view == "":
        return _alone(_doors(value, nouns) or nouns.phrase(value))
    if slot.view == "!":
        return _alone(nouns.bare(value))
    if slot.view == "'s":
        return _alone(_possessive(nouns.phrase(value), nouns.bare(value)))
    if slot.view == ":":
        return _alone(_worded(value, slot, nouns))
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


def _worded(value: Value, slot: FrameSlot, nouns: NounPhrases) -> str | None:
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


def _adjective(value: Value, call: PlannedCall, nouns: NounPhrases) -> Viewed:
    text = nouns.bare(value)
    if text is None or nouns.is_blank(value):
        return None
    endings = (" class", "-class") if value.value == "first" else (" class", "-class", "")
    return f"{text}{nouns.draw.choice(endings)}", ()


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


def _named(value: Value, call: PlannedCall, nouns: NounPhrases) -> Viewed:
    """Return a list behind the name of its kind: "the hashtags #a and #b"."""
    text = nouns.bare(value)
    if text is None or nouns.is_blank(value):
        return None
    words = kind_words(value.kind)
    return f"the {words.noun if len(value.value) == 1 else words.plural} {text}", ()


def _insurance(value: Value, call: PlannedCall, nouns: NounPhrases) -> Viewed:
    text = nouns.bare(value)
    if text is None or nouns.is_blank(value):
        return _alone(text)
    return (text if "insurance" in text else f"{text} insurance"), ()


def _updates(joint: str) -> View:
    def view(value: Value, call: PlannedCall, nouns: NounPhrases) -> Viewed:
        spoken = nouns.spoken(value)
        if nouns.is_blank(value) or spoken is None or not isinstance(spoken[0], dict):
            return None
        parts = [
            f"the {_FIELD_NAMES.get(field, field)} {joint} {_field_text(content, nouns)}"
            for field, content in spoken[0].items()
        ]
        return list_text(parts, nouns.draw), ()

    return view


def _field_text(content: Any, nouns: NounPhrases) -> str:
    if isinstance(content, str):
        return quote_text(content, nouns.mark)
    return mark_literal(number_text(content))


def _degrees(value: Value, call: PlannedCall, nouns: NounPhrases) -> Viewed:
    if nouns.is_blank(value):
        return "a certain temperature", ()
    number = nouns.bare(value)
    if number is None:
        return None
    unit = call.arguments.get("unit")
    if unit is None:
        return f"{number} degrees{nouns.draw.choice(('', ' Celsius'))}", ()
    if nouns.is_blank(unit) or nouns.spoken(unit) is None:
        return f"{number} degrees", ()
    return f"{number} degrees {mark_literal(str(unit.value).capitalize())}", ("unit",)


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
    if isinstance(value.value, dict):
        found = _updates("is")(value, PlannedCall("", ""), nouns)
        return found and found[0]
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
    "adjective": _adjective,
    "insurance": _insurance,
    "named": _named,
    "route": _route,
    "is": _updates("is"),
    "to": _updates("to"),
    "degrees": _degrees,
}
