"""Small hand-made plans of multi-turn tasks, values drawn by a seed: what words are tried on."""

from __future__ import annotations

import json
import random
from typing import Any

from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.python_source.parse import PlainCall
from fctncalling.lab.forge.multi_turn.moves import PARAMETER_KINDS
from fctncalling.lab.forge.plan import Plan, PlannedCall, PlannedTurn, Source, Value

DOORS = ("driver", "passenger", "rear_left", "rear_right")
Call = tuple[str, dict[str, Any], str]


def now(value: Any) -> dict[str, Any]:
    return {"value": value, "provenance": "said_now", "said": value}


def before(value: Any, turn: int) -> dict[str, Any]:
    return {"value": value, "provenance": "said_before", "source": Source(turn)}


def result(value: Any, turn: int, call: int, *path: Any) -> dict[str, Any]:
    return {"value": value, "provenance": "result", "source": Source(turn, call, path)}


def state(value: Any, *path: Any) -> dict[str, Any]:
    return {"value": value, "provenance": "state", "source": Source(path=path)}


def flag(value: Any) -> dict[str, Any]:
    return {"value": value, "provenance": "flag"}


def inferred(value: Any, rule: str, said: Any = None, said_kind: str = "") -> dict[str, Any]:
    return {
        "value": value,
        "provenance": "inferred",
        "rule": rule,
        "said": said,
        "said_kind": said_kind,
    }


def car(draw: random.Random) -> tuple[str, dict[str, Any], list[list[Call]]]:
    liters, place = draw.choice([20, 30, 40]), draw.choice(["12 Elm Row, Stonebrook", "Pinehaven"])
    gallons = liters * 0.264172
    return (
        "VehicleControlAPI",
        {"fuelLevel": float(draw.randint(2, 20))},
        [
            [
                ("liter_to_gallon", {"liter": now(liters)}, "needed_step"),
                ("fillFuelTank", {"fuelAmount": result(gallons, 0, 0, "gallon")}, "asked"),
            ],
            [
                (
                    "lockDoors",
                    {
                        "unlock": flag(False),
                        "door": state(list(DOORS), "VehicleControlAPI", "doorStatus"),
                    },
                    "needed_step",
                ),
                ("pressBrakePedal", {"pedalPosition": inferred(1.0, "full_pedal")}, "needed_step"),
                ("startEngine", {"ignitionMode": inferred("START", "start_mode")}, "asked"),
            ],
            [
                ("check_tire_pressure", {}, "asked"),
                ("set_navigation", {"destination": now(place)}, "asked"),
            ],
        ],
    )


def broker(draw: random.Random) -> tuple[str, dict[str, Any], list[list[Call]]]:
    symbol, name, price = draw.choice([("AAPL", "Apple", 227.16), ("ZETA", "Zeta Corp", 22.09)])
    shares = draw.randint(5, 40)
    order = {
        "order_type": flag("Buy"),
        "symbol": before(symbol, 0),
        "price": result(price, 0, 0, "price"),
        "amount": now(shares),
    }
    return (
        "TradingBot",
        {"authenticated": True, "order_counter": 20000 + draw.randint(1, 999)},
        [
            [
                (
                    "get_stock_info",
                    {"symbol": inferred(symbol, "symbol_of_company", name, "company")},
                    "asked",
                )
            ],
            [("place_order", order, "asked")],
            [("get_order_details", {"order_id": result(None, 1, 0, "order_id")}, "asked")],
            [("cancel_order", {"order_id": result(None, 1, 0, "order_id")}, "asked")],
        ],
    )


def trip(draw: random.Random) -> tuple[str, dict[str, Any], list[list[Call]]]:
    token, card = str(draw.randint(10**5, 10**6)), f"card_{draw.randint(1000, 9999)}"
    date, spoken = f"2026-05-{draw.randint(10, 28)}", ""
    spoken = f"May {date[-2:]}, 2026"
    flight = {
        "access_token": now(token),
        "card_id": state(card, "TravelAPI", "credit_card_list"),
        "travel_date": inferred(date, "iso_date", spoken, "spoken_date"),
        "travel_from": inferred("JFK", "airport_of_city", "New York", "city"),
        "travel_to": inferred("BOS", "airport_of_city", "Boston", "city"),
        "travel_class": now(draw.choice(["economy", "business"])),
    }
    invoice = {
        "access_token": before(token, 0),
        "booking_id": result(None, 0, 0, "booking_id"),
    }
    config = {
        "credit_card_list": {card: {"card_number": "4000 1200 3400 5600", "balance": 9000.0}},
        "access_token": token,
        "token_expires_in": 3600,
    }
    return (
        "TravelAPI",
        config,
        [
            [("book_flight", flight, "asked")],
            [("retrieve_invoice", invoice, "asked")],
        ],
    )


def files(draw: random.Random) -> tuple[str, dict[str, Any], list[list[Call]]]:
    folder, name = draw.choice(["minutes", "drafts"]), draw.choice(["budget.txt", "agenda.md"])
    text = draw.choice(["Rent is due on Monday.", "Call the printer before noon."])
    tree = {folder: {"type": "directory", "contents": {}}}
    config = {"root": {"home": {"type": "directory", "contents": tree}}}
    return (
        "GorillaFileSystem",
        config,
        [
            [
                ("cd", {"folder": now(folder)}, "needed_step"),
                ("touch", {"file_name": now(name)}, "asked"),
            ],
            [
                ("echo", {"content": now(text), "file_name": before(name, 0)}, "asked"),
                ("cat", {"file_name": before(name, 0)}, "asked"),
            ],
        ],
    )


SCENES = (car, broker, trip, files)


def sample_plans(count: int = 40, seed: int = 0) -> list[Plan]:
    """Return plans whose truths replay; the same for the same arguments."""
    return [_plan(index, random.Random(f"{seed}/{index}")) for index in range(count)]


def _plan(index: int, draw: random.Random) -> Plan:
    name, config, scripts = SCENES[index % len(SCENES)](draw)
    session = ToolSession([name], {name: config})
    results: dict[tuple[int, int], str] = {}
    turns = []
    for turn, script in enumerate(scripts):
        calls = []
        for function, drawn, purpose in script:
            kinds = PARAMETER_KINDS[name][function]
            values = {
                key: Value(kinds[key], **_known(each, results)) for key, each in drawn.items()
            }
            plain = PlainCall(function, (), {key: each.value for key, each in values.items()})
            text = results[turn, len(calls)] = session.execute(plain)
            calls.append(PlannedCall(name, function, values, purpose, result=text))  # type: ignore[arg-type]
        turns.append(PlannedTurn(tuple(calls), requested=tuple(calls)))
    return Plan({name: config}, (name,), tuple(turns), seed=f"sample/{index}")


def _known(drawn: dict[str, Any], results: dict[tuple[int, int], str]) -> dict[str, Any]:
    """Fill in a value that only the result it comes from tells."""
    if drawn["value"] is not None:
        return drawn
    source = drawn["source"]
    value: Any = json.loads(results[source.turn, source.call])
    for key in source.path:
        value = value[key]
    return {**drawn, "value": value}
