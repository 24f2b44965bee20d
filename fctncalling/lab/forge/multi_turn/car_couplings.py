"""Arguments that belong together: car and mathematics."""

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
    draft_of,
    fixed,
    fresh,
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
    every = looked_up_value("door", list(doors), drafter.state)
    if not unlock and drafter.draw.random() < 0.12:
        some = [door for door, status in doors.items() if status == "unlocked"]
        return {
            "unlock": verb_implied_value("switch", False),
            "door": verbatim_value("door", some[:2]),
        }
    return {"unlock": verb_implied_value("switch", unlock), "door": every}


def draft_fill_tank(drafter: Drafter) -> Arguments:
    shown = drafter.knowledge.results("gallon")[-1:]
    if shown and drafter.draw.random() < 0.5:
        return {"fuelAmount": value_from_fact(shown[0], "result")}
    if shown:
        whole = float(round(shown[0].value))
        return {
            "fuelAmount": inferred_value("gallons", whole, "whole_gallons", "whole", "rounding")
        }
    if drafter.draw.random() < 0.8 * drafter.dials.inferred:
        room = 50.0 - drafter.state["VehicleControlAPI"]["fuelLevel"]
        return {"fuelAmount": inferred_value("gallons", room, "fill_up", "full", "fill_level")}
    return {"fuelAmount": drafter.fresh("gallons")}


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
    if pairs:
        first, second = drafter.draw.choice(pairs)
        ends = [value_from_fact(shown[code], "result") for code in (first, second)]
    else:
        ends = [
            verbatim_value("zipcode", code) for code in drafter.draw.choice(inventory.DISTANCES)
        ]
    if drafter.draw.random() < 0.5:
        ends.reverse()
    return {"cityA": ends[0], "cityB": ends[1]}


def draft_zipcode_lookup(drafter: Drafter) -> Arguments:
    """Return a city that lies at a known distance from the one asked about last."""
    shown = drafter.knowledge.results("zipcode")[-1:]
    codes = [c for pair in inventory.DISTANCES for c in pair if c in inventory.CITY_OF_ZIPCODE]
    if shown:
        code = shown[0].value
        pairs = [p for p in inventory.DISTANCES if code in p and set(p) <= set(codes)]
        codes = [c for pair in pairs for c in pair if c != code] or codes
    city = inventory.CITY_OF_ZIPCODE[drafter.draw.choice(codes)]
    return {"city": verbatim_value("city", city)}


def draft_drive_feasibility(drafter: Drafter) -> Arguments:
    known = drafter.knowledge.results("miles")[-1:]  # kilometers are none
    value = value_from_fact(known[0], "result") if known else drafter.fresh("miles")
    return {"distance": value}


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


def draft_number_list(drafter: Drafter) -> Arguments:
    """Return a list of numbers: those of one result, or some that the words say."""
    shown = newest_shown_numbers(drafter.knowledge)
    if shown and drafter.draw.random() < 0.9:
        source = Source(shown[0].turn, shown[0].call, ("*",))
        return {"numbers": Value("number", [f.value for f in shown], "result", source=source)}
    if drafter.draw.random() < 0.4:
        raise LookupError("numbers")  # those of a result are the more usual ones
    drawn = [drafter.fresh("number").value for _ in range(drafter.draw.randint(2, 4))]
    return {"numbers": verbatim_value("number", drawn)}


_LARGEST = 1e7  # nobody goes on from a number beyond


def draft_number_value(drafter: Drafter) -> Value:
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


def two_number_draft(first: str, second: str, choose: Callable[[Random, float], Any]) -> Draft:
    """Return a draft of a number, shown or said, and of another that makes sense beside it."""

    def draft(drafter: Drafter) -> Arguments:
        value = draft_number_value(drafter)
        other = choose(drafter.draw, value.value)
        kind = "precision" if second == "precision" else "number"
        return {first: value, second: verbatim_value(kind, other)}

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


def draft_absolute_value(drafter: Drafter) -> Arguments:
    """Return a negative number: of any other the magnitude is no question."""
    shown = draft_number_value(drafter)
    if shown.value < 0:
        return {"number": shown}
    return {"number": verbatim_value("number", -abs(drafter.fresh("number").value))}


def draft_round_number(drafter: Drafter) -> Arguments:
    """Return a number with more decimals than are wanted."""
    value = draft_number_value(drafter)
    if round(value.value, 2) == value.value and value.provenance != "result":
        value = verbatim_value(
            "number", round(drafter.draw.uniform(1, 500), drafter.draw.randint(3, 6))
        )
    places = range(1, len(str(value.value).partition(".")[2]))
    return {
        "number": value,
        "decimal_places": verbatim_value("precision", drafter.draw.choice(places[:4])),
    }


def draft_logarithm(drafter: Drafter) -> Arguments:
    base: Any = drafter.draw.choice((2, 10, 5))
    return {
        "value": draft_number_value(drafter),
        "base": verbatim_value("number", base),
        "precision": drafter.fresh("precision"),
    }


def unit_conversion_draft(pairs: tuple[tuple[str, str], ...]) -> Draft:
    """Return a draft of a number in one unit, wanted in another.

    A number that a result shows has the unit of its kind; what has none is no length or weight.
    """

    def draft(drafter: Drafter) -> Arguments:
        value = draft_number_value(drafter)
        unit = UNIT_OF_KIND.get(value.kind, "")
        fitting = [pair for pair in pairs if pair[0] == unit]
        if not fitting:
            value, fitting = drafter.fresh("number"), list(pairs)
        unit_in, unit_out = drafter.draw.choice(fitting)
        return {
            "value": value,
            "unit_in": verbatim_value("unit", unit_in),
            "unit_out": verbatim_value("unit", unit_out),
        }

    return draft


UNIT_OF_KIND = {"kilometers": "km", "miles": "miles"}
_METRIC = (("km", "m"), ("m", "cm"), ("m", "km"), ("cm", "mm"), ("mm", "cm"))
_IMPERIAL = (("km", "miles"), ("miles", "km"), ("kg", "lb"), ("lb", "kg"),
             ("m", "ft"), ("ft", "m"))  # fmt: skip


DRAFTS: dict[str, Draft] = {
    "lockDoors": draft_lock_doors,
    "displayCarStatus": draft_of(option=fresh("car_part")),  # nobody says "that part" of fuel
    "pressBrakePedal": draft_of(
        pedalPosition=fixed(inferred_value("pedal_position", 1.0, "full_pedal"))
    ),
    "startEngine": draft_of(ignitionMode=fixed(verb_implied_value("ignition_mode", "START"))),
    "fillFuelTank": draft_fill_tank,
    "setCruiseControl": draft_of(
        speed=fresh("speed"),
        activate=fixed(verb_implied_value("switch", True)),
        distanceToNextVehicle=fresh("meters"),
    ),
    "adjustClimateControl": draft_climate_control,
    "estimate_distance": draft_distance,
    "get_zipcode_based_on_city": draft_zipcode_lookup,
    "estimate_drive_feasibility_by_mileage": draft_drive_feasibility,
    "set_navigation": draft_of(
        destination=lambda drafter: drafter.known("place") or drafter.fresh("place")
    ),
    **dict.fromkeys(
        ("max_value", "min_value", "mean", "standard_deviation", "sum_values"), draft_number_list
    ),
    "add": two_number_draft("a", "b", lambda draw, _: draw.randint(2, 900)),
    "subtract": two_number_draft("a", "b", _smaller),
    "multiply": two_number_draft(
        "a", "b", lambda draw, _: draw.choice((draw.randint(2, 60), 1.5, 2.5, 0.75))
    ),
    "divide": two_number_draft("a", "b", lambda draw, _: draw.randint(2, 36)),
    "absolute_value": draft_absolute_value,
    "percentage": two_number_draft("part", "whole", _larger),
    "power": two_number_draft("base", "exponent", lambda draw, _: draw.choice((2, 3))),
    "round_number": draft_round_number,
    "square_root": two_number_draft("number", "precision", lambda draw, _: draw.randint(1, 5)),
    "logarithm": draft_logarithm,
    "si_unit_conversion": unit_conversion_draft(_METRIC),
    "imperial_si_conversion": unit_conversion_draft(_IMPERIAL),
}
"""Function -> how its arguments are drafted together."""
