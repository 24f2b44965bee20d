"""Drafts of arguments: car and mathematics."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from fctncalling.lab.forge.multi_turn import inventory
from fctncalling.lab.forge.multi_turn.drafter import (
    NUMERIC_KINDS,
    Arguments,
    Draft,
    Drafter,
    inferred_value,
    looked_up_value,
    value_from_fact,
    verb_implied_value,
    verbatim_value,
)
from fctncalling.lab.forge.multi_turn.knowledge import Fact, Knowledge
from fctncalling.lab.forge.plan import Source, Value


def draft_lock_doors(drafter: Drafter) -> Arguments:
    doors = drafter.state["VehicleControlAPI"]["doorStatus"]
    unlock = all(status == "locked" for status in doors.values())
    which = looked_up_value("door", list(doors), drafter.state)
    if not unlock and drafter.draw.random() < 0.12:
        some = [door for door, status in doors.items() if status == "unlocked"]
        which = verbatim_value("door", some[:2])
    return {"unlock": verb_implied_value("switch", unlock), "door": which}


def fuel(drafter: Drafter) -> Value:
    shown = drafter.knowledge.results("gallon")[-1:]
    if shown and drafter.draw.random() < 0.5:
        return value_from_fact(shown[0], "result")
    if shown:
        whole = float(round(shown[0].value))
        return inferred_value("gallons", whole, "whole_gallons", "whole", "rounding")
    if drafter.draw.random() < 0.8 * drafter.dials.inferred:
        room = 50.0 - drafter.state["VehicleControlAPI"]["fuelLevel"]
        return inferred_value("gallons", room, "fill_up", "full", "fill_level")
    return drafter.fresh("gallons")


def draft_climate_control(drafter: Drafter) -> Arguments:
    arguments = {"temperature": drafter.fresh("temperature")}
    if drafter.draw.random() < 0.4:
        degrees = float(drafter.draw.randint(60, 80))
        arguments["temperature"] = verbatim_value("temperature", degrees)
        arguments["unit"] = verbatim_value("temperature_unit", "fahrenheit")
    if drafter.draw.random() < 0.5:
        arguments["fanSpeed"] = drafter.fresh("fan_speed")
    if drafter.draw.random() < 0.6:
        arguments["mode"] = drafter.fresh("climate_mode")
    return arguments


def draft_distance(drafter: Drafter) -> Arguments:
    shown = {f.value: f for f in drafter.knowledge.results("zipcode")}
    pairs = [p for p in inventory.DISTANCES if p[0] in shown and p[1] in shown]
    codes = drafter.draw.choice(pairs or inventory.DISTANCES)
    ends = [
        value_from_fact(shown[code], "result") if pairs else verbatim_value("zipcode", code)
        for code in codes
    ]
    if drafter.draw.random() < 0.5:
        ends.reverse()
    return {"cityA": ends[0], "cityB": ends[1]}


def city(drafter: Drafter) -> Value:
    """Return a city that lies at a known distance from the one asked about last."""
    shown = drafter.knowledge.results("zipcode")[-1:]
    codes = [c for pair in inventory.DISTANCES for c in pair if c in inventory.CITY_OF_ZIPCODE]
    if shown:
        code = shown[0].value
        pairs = [p for p in inventory.DISTANCES if code in p and set(p) <= set(codes)]
        codes = [c for pair in pairs for c in pair if c != code] or codes
    return verbatim_value("city", inventory.CITY_OF_ZIPCODE[drafter.draw.choice(codes)])


def newest_shown_numbers(knowledge: Knowledge) -> list[Fact]:
    """Return the numbers of the newest result that shows several, all of one kind.

    Nobody takes the mean of a price and its moving averages.
    """
    shown: dict[tuple[int, int], list[Fact]] = {}
    for fact in knowledge.facts:
        if fact.kind in NUMERIC_KINDS and fact.call >= 0:
            shown.setdefault((fact.turn, fact.call), []).append(fact)
    alike = (each for each in shown.values() if len({fact.kind for fact in each}) == 1)
    return next((facts for facts in reversed(list(alike)) if len(facts) > 1), [])


def numbers(drafter: Drafter) -> Value:
    """Return a list of numbers: those of one result, or some that the words say."""
    shown = newest_shown_numbers(drafter.knowledge)
    if shown and drafter.draw.random() < 0.9:
        source = Source(shown[0].turn, shown[0].call, ("*",))
        return Value("number", [f.value for f in shown], "result", source=source)
    if drafter.draw.random() < 0.4:
        raise LookupError("numbers")  # those of a result are the more usual ones
    fresh_ones = [drafter.fresh("number").value for _ in range(drafter.draw.randint(2, 4))]
    return verbatim_value("number", fresh_ones)


_LARGEST = 1e7  # nobody goes on from a number beyond


def number(drafter: Drafter) -> Value:
    """Return a number: the one shown last, or one that the words say."""
    facts = [
        f
        for f in drafter.knowledge.facts
        if f.kind in NUMERIC_KINDS and f.call >= 0 and abs(f.value) < _LARGEST
    ]
    last = [f for f in facts if (f.turn, f.call) == (facts[-1].turn, facts[-1].call)]
    if len(last) == 1 and drafter.draw.random() < 0.9:
        return value_from_fact(last[0], "result")
    return drafter.fresh("number")


def number_and(parameters: str, choose: str) -> Draft:
    """Return a draft of a number, shown or said, and of another that makes sense beside it.

    `parameters`: both names, such as "a b"; `choose`: a key of `_OTHERS`.
    """
    first, second = parameters.split()
    kind = "precision" if second == "precision" else "number"

    def draft(drafter: Drafter) -> Arguments:
        value = number(drafter)
        return {
            first: value,
            second: verbatim_value(kind, _OTHERS[choose](drafter.draw, value.value)),
        }

    return draft


def _smaller(draw: Random, value: float) -> Any:
    """Return a number of which something is left when it is taken from the first."""
    if value <= 2:
        raise LookupError("number")
    whole = draw.randint(1, max(1, int(value) - 1))
    return whole if draw.random() < 0.6 else round(draw.uniform(0.5, value * 0.95), 2)


def _larger(draw: Random, value: float) -> Any:
    """Return a whole of which the first number is a part."""
    if value <= 0:
        raise LookupError("number")
    return int(value * draw.uniform(1.1, 6)) + 1


_OTHERS: dict[str, Callable[[Random, float], Any]] = {
    "any": lambda draw, _: draw.randint(2, 900),
    "smaller": _smaller,
    "larger": _larger,
    "factor": lambda draw, _: draw.choice((draw.randint(2, 60), 1.5, 2.5, 0.75)),
    "divisor": lambda draw, _: draw.randint(2, 36),
    "exponent": lambda draw, _: draw.choice((2, 3)),
    "digits": lambda draw, _: draw.randint(1, 5),
}


def negative_number(drafter: Drafter) -> Value:
    """Return a negative number: of any other the magnitude is no question."""
    shown = number(drafter)
    if shown.value < 0:
        return shown
    return verbatim_value("number", -abs(drafter.fresh("number").value))


def draft_round_number(drafter: Drafter) -> Arguments:
    """Return a number with more decimals than are wanted."""
    draw, value = drafter.draw, number(drafter)
    if round(value.value, 2) == value.value and value.provenance != "result":
        value = verbatim_value("number", round(draw.uniform(1, 500), draw.randint(3, 6)))
    places = range(1, len(str(value.value).partition(".")[2]))
    return {
        "number": value,
        "decimal_places": verbatim_value("precision", draw.choice(places[:4])),
    }


def draft_logarithm(drafter: Drafter) -> Arguments:
    base = verbatim_value("number", drafter.draw.choice((2, 10, 5)))
    return {"value": number(drafter), "base": base, "precision": drafter.fresh("precision")}


def unit_conversion(pairs: str) -> Draft:
    """Return a draft of a number in one unit, wanted in another: "km m; m cm".

    A number that a result shows has the unit of its kind; what has none is no length or weight.
    """
    listed = [tuple(pair.split()) for pair in pairs.split("; ")]

    def draft(drafter: Drafter) -> Arguments:
        value = number(drafter)
        unit = {"kilometers": "km", "miles": "miles"}.get(value.kind, "")
        fitting = [pair for pair in listed if pair[0] == unit]
        if not fitting:
            value, fitting = drafter.fresh("number"), listed
        units = [verbatim_value("unit", each) for each in drafter.draw.choice(fitting)]
        return {"value": value, "unit_in": units[0], "unit_out": units[1]}

    return draft


def distance(drafter: Drafter) -> Value:
    known = drafter.knowledge.results("miles")[-1:]  # kilometers are none
    return value_from_fact(known[0], "result") if known else drafter.fresh("miles")


def full_pedal(drafter: Drafter) -> Value:
    return inferred_value("pedal_position", 1.0, "full_pedal")


def known_or_new_place(drafter: Drafter) -> Value:
    return drafter.known("place") or drafter.fresh("place")
