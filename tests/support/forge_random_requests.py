"""Plans of requests alone: any function, values drawn per kind, nothing executed.

They are for the words: each function with each set of its optional arguments, and every provenance
that the words tell apart.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from fctncalling.lab.forge.multi_turn.dials import PARAMETER_KINDS
from fctncalling.lab.forge.multi_turn.values import draw_value, read_toml
from fctncalling.lab.forge.plan import Plan, PlannedCall, PlannedTurn, Provenance, Source, Value

DOORS = ("driver", "passenger", "rear_left", "rear_right")
CITIES = ("Rivermist", "Stonebrook", "Boston", "Paris", "Rome")
OPTIONAL = {
    "du": ["human_readable"],
    "echo": ["file_name"],
    "ls": ["a"],
    "tail": ["lines"],
    "wc": ["mode"],
    "round_number": ["decimal_places"],
    "create_ticket": ["description", "priority"],
    "get_user_tickets": ["status"],
    "get_transaction_history": ["start_date", "end_date"],
    "post_tweet": ["tags", "mentions"],
    "retrieve_invoice": ["insurance_id"],
    "get_budget_fiscal_year": ["lastModifiedAfter", "includeRemoved"],
    "adjustClimateControl": ["unit", "fanSpeed", "mode"],
}
TOGETHER = ("start_date", "end_date")  # given both or not at all
SWITCHES: dict[str, list[Any]] = {
    "switch": [True, False],
    "headlight_mode": ["on", "off", "auto"],
    "brake_mode": ["engage", "release"],
    "ignition_mode": ["START", "STOP"],
    "order_type": ["Buy", "Sell"],
}
FLAGS = {*SWITCHES, "count_mode", "car_part", "climate_mode", "temperature_unit", "grant_type"}
CHOICES: dict[str, Sequence[Any]] = {
    **SWITCHES,
    "entry_name": ("plan.txt", "attic", "log7.csv"),
    "destination": ("attic", "renamed.txt"),
    "folder": ("attic", "cellar"),
    "folder_path": (".", "attic/box"),
    "text": ("Meet me at nine.", "It's done, thanks", "Roof leaks near the stairs"),
    "pattern": ("error", "total due"),
    "name_part": ("plan", "log"),
    "count_mode": ("l", "w", "c"),
    "unit": ("km", "m"),
    "symbol": ("AAPL", "ZETA", "NVDA", "TSLA"),
    "company": ("Apple", "Zeta Corp"),
    "sector": ("Technology", "Automobile"),
    "user_id": ("USR004", "USR117"),
    "contact": ("Alice", "Catherine"),
    "airport": ("JFK", "BOS", "CDG"),
    "city": CITIES,
    "currency": ("USD", "EUR"),
    "temperature_unit": ("celsius", "fahrenheit"),
    "door": DOORS,
    "pedal_position": (1, 0.5, 0.7),
}
MANY = {"numbers", "mentioned_usernames", "tags", "mentions", "stocks", "door", "messages"}
"""Parameters that take lists."""


def value_of(kind: str, draw: random.Random) -> Any:
    if kind in CHOICES:
        return draw.choice(CHOICES[kind])
    if kind in read_toml("values"):
        return draw_value(kind, draw)
    if kind.endswith(("_id", "zipcode", "token", "secret")) and kind not in (
        "order_id", "ticket_id", "tweet_id",
    ):  # fmt: skip
        return str(draw.randint(10_000, 999_999))
    return draw.randint(2, 900)


def spoken_value(name: str, kind: str, draw: random.Random) -> Value:
    value = value_of(kind, draw)
    if name in MANY:
        value = [value_of(kind, draw) for _ in range(draw.randint(1, 4))]
        value = list(dict.fromkeys(value))
    if kind in FLAGS or value == ".":
        return Value(kind, value, "flag")
    if kind == "door":
        return Value(kind, value, "flag")
    if kind == "airport" and draw.random() < 0.6:
        city = draw.choice(CITIES)
        return Value(kind, value, "inferred", city, "city", "airport_of_city")
    if kind == "date" and draw.random() < 0.6:
        return Value(kind, value, "inferred", value, "spoken_date", "iso_date")
    return Value(kind, value, "said_now", value)


def random_call(class_name: str, function: str, draw: random.Random) -> PlannedCall:
    both = draw.random() < 0.5
    left_out = {
        name
        for name in OPTIONAL.get(function, ())
        if (not both if name in TOGETHER else draw.random() < 0.5)
    }
    arguments = {
        name: spoken_value(name, kind, draw)
        for name, kind in PARAMETER_KINDS[class_name][function].items()
        if name not in left_out
    }
    return PlannedCall(class_name, function, arguments)


def functions() -> list[tuple[str, str]]:
    return [(name, each) for name, table in PARAMETER_KINDS.items() for each in table]


def request_of(class_name: str, function: str, seed: int) -> Plan:
    """Return a plan of one turn that asks for one call."""
    draw = random.Random(f"{function}/{seed}")
    calls = (random_call(class_name, function, draw),)
    return plan_of([PlannedTurn(calls, requested=calls)], f"{function}/{seed}")


def random_requests(count: int, seed: int = 0) -> list[Plan]:
    """Return plans of one to five turns of one to three calls, all of one or two classes."""
    return [_random_plan(random.Random(f"{seed}/{index}"), index) for index in range(count)]


def _random_plan(draw: random.Random, index: int) -> Plan:
    classes = draw.sample(sorted(PARAMETER_KINDS), draw.choice((1, 2, 2)))
    turns: list[PlannedTurn] = []
    for _ in range(draw.choice((2, 3, 4, 4, 5))):
        calls = tuple(
            random_call(name, draw.choice(sorted(PARAMETER_KINDS[name])), draw)
            for name in draw.choices(classes, k=draw.choice((1, 1, 1, 2, 2, 3)))
        )
        calls = tuple(_pointing_back(call, turns, draw) for call in calls)
        turns.append(PlannedTurn(calls, requested=calls))
    return plan_of(turns, f"requests/{index}")


def _pointing_back(call: PlannedCall, turns: list[PlannedTurn], draw: random.Random) -> PlannedCall:
    """Take some values from what an earlier turn said."""
    arguments = dict(call.arguments)
    for name, value in call.arguments.items():
        earlier = [
            (index, each)
            for index, turn in enumerate(turns)
            for one in turn.calls
            for each in one.arguments.values()
            if each.kind == value.kind and each.provenance == "said_now"
            and isinstance(each.value, list) == isinstance(value.value, list)
        ]  # fmt: skip
        if (
            earlier
            and value.provenance == "said_now"
            and draw.random() < 0.3
            and _can_be_pointed_at(value)
        ):
            index, each = draw.choice(earlier)
            before: Provenance = "said_before"
            arguments[name] = Value(value.kind, each.value, before, source=Source(index))
    return PlannedCall(call.class_name, call.function, arguments)


def _can_be_pointed_at(value: Value) -> bool:
    return value.kind in (
        "file_name", "order_id", "ticket_id", "tweet_id", "booking_id", "symbol", "number",
    )  # fmt: skip


def plan_of(turns: list[PlannedTurn], seed: str) -> Plan:
    tree = {name: {"type": "directory", "contents": {}} for name in ("attic", "cellar")}
    config = {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": tree}}}}
    classes = tuple(dict.fromkeys(call.class_name for turn in turns for call in turn.calls))
    return Plan(config, classes, tuple(turns), seed=seed)
