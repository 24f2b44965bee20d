"""Worlds: initial states of BFCL's eight classes, drawn from typed inventory.

Each maker returns one class's entry of `initial_config`, as the tools load it. Everything a request
may need to know is in there or can be said; two worlds rarely agree in any name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from fctncalling.envs.tools import load_bfcl_table
from fctncalling.lab.forge.multi_turn import inventory

World = dict[str, Any]

_TRADED = list(load_bfcl_table("trading_bot")["symbol_map"].values())
_SECTORS: dict[str, list[str]] = load_bfcl_table("trading_bot")["sector_map"]
_ROUTES = [(start, end) for start, end, _ in load_bfcl_table("travel_booking")["flight_base_costs"]]
_SEEDS = 1_000_000


def make_world(draw: random.Random, classes: Sequence[str]) -> dict[str, World]:
    """Return an `initial_config` of the classes. One person owns it all."""
    owner = (draw.choice(inventory.FIRST_NAMES), draw.choice(inventory.LAST_NAMES))
    return {name: _MAKERS[name](draw, owner) for name in classes}


def _files(draw: random.Random, owner: tuple[str, str]) -> World:
    names = draw.sample(inventory.FOLDERS, 7)
    contents: dict[str, Any] = {}
    for name in names[: draw.randint(1, 3)]:
        folder = _folder(draw, draw.randint(1, 4))
        contents[name] = folder
        if draw.random() < 0.35:
            folder["contents"][names.pop()] = _folder(draw, draw.choice((0, 0, 1, 2)))
    for _ in range(draw.randint(1, 4)):
        contents[inventory.draw_file_name(draw)] = _file(draw)
    if draw.random() < 0.15:
        contents[f".{draw.choice(inventory.FILE_STEMS)}"] = _file(draw)
    home = draw.choice((owner[0].lower(), "workspace", "home", "projects", "desk"))
    return {"root": {home: {"type": "directory", "contents": contents}}}


def _folder(draw: random.Random, files: int) -> World:
    entries = {inventory.draw_file_name(draw): _file(draw) for _ in range(files)}
    return {"type": "directory", "contents": entries}


def _file(draw: random.Random) -> World:
    return {
        "type": "file",
        "content": inventory.draw_text(draw, draw.choice((1, 2, 3, 3, 4, 6, 12))),
    }


def _mathematics(draw: random.Random, owner: tuple[str, str]) -> World:
    return {}


def _messages(draw: random.Random, owner: tuple[str, str]) -> World:
    names = [owner[0], *draw.sample([n for n in inventory.FIRST_NAMES if n != owner[0]], 6)]
    names = names[: draw.randint(4, 7)]
    users = {name: f"USR{number:03d}" for number, name in enumerate(names, 1)}
    others = list(users.values())[1:]
    inbox = [
        {draw.choice(others): inventory.draw_short_message(draw)} for _ in range(draw.randint(0, 4))
    ]
    return {
        "random_seed": draw.randrange(_SEEDS),
        "user_count": len(users),
        "user_map": users,
        "inbox": inbox,
        "message_count": len(inbox),
        "current_user": users[owner[0]] if draw.random() < 0.7 else None,
    }


def _posts(draw: random.Random, owner: tuple[str, str]) -> World:
    me = f"{owner[0].lower()}_{draw.choice((owner[1].lower(), draw.choice(inventory.TOPICS)))}"
    friends = [inventory.draw_account(draw) for _ in range(draw.randint(1, 4))]
    first = draw.randint(0, 60)
    tweets = {}
    for number in range(first, first + draw.randint(1, 4)):
        author = me if draw.random() < 0.5 else draw.choice(friends)
        tags = [f"#{tag}" for tag in draw.sample(inventory.TOPICS, draw.randint(0, 2))]
        tweets[str(number)] = {
            "id": number,
            "username": author,
            "content": inventory.draw_tweet(draw),
            "tags": tags,
            "mentions": [],
        }
    return {
        "username": me,
        "password": inventory.draw_password(draw),
        "authenticated": draw.random() < 0.72,
        "tweets": tweets,
        "comments": {},
        "retweets": {},
        "following_list": friends,
        "tweet_counter": first + len(tweets),
    }


def _tickets(draw: random.Random, owner: tuple[str, str]) -> World:
    number = draw.randint(1, 9000)
    me = " ".join(owner)
    queue = []
    for _ in range(draw.randint(1, 4)):
        queue.append(
            {
                "id": number,
                "title": inventory.draw_title(draw),
                "description": inventory.draw_complaint(draw),
                "status": "Open",
                "priority": draw.randint(1, 5),
                "created_by": me if draw.random() < 0.7 else inventory.draw_full_name(draw),
            }
        )
        number += draw.choice((1, 1, 2, 7))
    logged_in = me if draw.random() < 0.65 else None
    return {"ticket_queue": queue, "ticket_counter": number, "current_user": logged_in}


def _trading(draw: random.Random, owner: tuple[str, str]) -> World:
    symbols = [*_SECTORS["Technology"], "TSLA", *draw.sample(_TRADED, 4)]
    if draw.random() < 0.6:
        symbols += _SECTORS["Automobile"]
    symbols = list(dict.fromkeys([*symbols, *draw.sample(inventory.TICKERS, draw.randint(2, 6))]))
    stocks = {symbol: _stock(draw) for symbol in symbols}
    number = draw.randint(10_000, 90_000)
    orders = {}
    for _ in range(draw.randint(1, 3)):
        symbol = draw.choice(symbols)
        orders[str(number)] = {
            "id": number,
            "order_type": draw.choice(("Buy", "Sell")),
            "symbol": symbol,
            "price": stocks[symbol]["price"],
            "amount": draw.randint(1, 60),
            "status": draw.choice(("Open", "Completed", "Open")),
        }
        number += draw.randint(1, 40)
    return {
        "random_seed": draw.randrange(_SEEDS),
        "orders": orders,
        "account_info": {
            "account_id": draw.randint(10_000, 99_999),
            "balance": round(draw.uniform(4_000, 90_000), 2),
            "binding_card": draw.randint(10**15, 10**16 - 1),
        },
        "authenticated": draw.random() < 0.85,
        "market_status": "Open" if draw.random() < 0.8 else "Closed",
        "order_counter": number,
        "stocks": stocks,
        "watch_list": draw.sample(symbols, draw.randint(1, 4)),
        "transaction_history": [],
    }


def _stock(draw: random.Random) -> World:
    price = round(draw.choice((draw.uniform(8, 90), draw.uniform(90, 900))), 2)
    return {
        "price": price,
        "percent_change": round(draw.uniform(-4, 4), 2),
        "volume": round(draw.uniform(0.3, 6), 3),
        "MA(5)": round(price * draw.uniform(0.97, 1.03), 2),
        "MA(20)": round(price * draw.uniform(0.94, 1.06), 2),
    }


def _travel(draw: random.Random, owner: tuple[str, str]) -> World:
    cards = {_card_id(draw): _card(draw, owner) for _ in range(draw.choice((1, 1, 2, 3)))}
    bookings = {}
    for _ in range(draw.choice((0, 1, 1, 2))):
        start, end = draw.choice(_ROUTES)
        bookings[str(draw.randint(10**6, 10**7 - 1))] = {
            "card_id": draw.choice(list(cards)),
            "travel_date": draw_date(draw),
            "travel_from": start,
            "travel_to": end,
            "travel_class": draw.choice(("economy", "business", "first")),
            "travel_cost": float(draw.randint(20, 300) * 10),
            "transaction_id": str(draw.randint(10**7, 10**8 - 1)),
        }
    expired = draw.random() < 0.08
    return {
        "random_seed": draw.randrange(_SEEDS),
        "credit_card_list": cards,
        "booking_record": bookings,
        "access_token": inventory.draw_code(draw, draw.choice((8, 10, 12))),
        "token_type": "Bearer",
        "token_expires_in": 0 if expired else draw.choice((1800, 3600, 7200)),
        "token_scope": draw.choice(("read_write", "booking")),
        "user_first_name": owner[0],
        "user_last_name": owner[1],
        "budget_limit": float(draw.randint(5, 60) * (1000 if draw.random() < 0.15 else 100)),
    }


def _card_id(draw: random.Random) -> str:
    if draw.random() < 0.4:
        return f"card_{draw.randint(1000, 9999)}"
    return str(draw.randint(10**11, 10**12 - 1))


def _card(draw: random.Random, owner: tuple[str, str]) -> World:
    return {
        "card_number": str(draw.randint(4 * 10**15, 5 * 10**15)),
        "expiry_date": f"{draw.randint(1, 12):02d}/{draw.randint(27, 33)}",
        "cardholder_name": " ".join(owner),
        "card_verification_number": draw.randint(100, 999),
        "balance": float(draw.randint(90, 400) * 100),
    }


def draw_date(draw: random.Random) -> str:
    """Return a day of the coming years as "YYYY-MM-DD"."""
    return f"{draw.choice((2026, 2027))}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"


def _vehicle(draw: random.Random, owner: tuple[str, str]) -> World:
    doors = ("driver", "passenger", "rear_left", "rear_right")
    locked = draw.random()
    pressure = draw.choice((26.0, 28.0, 30.0, 31.5, 32.0, 33.0))
    return {
        "random_seed": draw.randrange(_SEEDS),
        "fuelLevel": round(draw.uniform(3, 30), 1),
        "batteryVoltage": round(draw.uniform(11.8, 13.1), 1),
        "engineState": "stopped",
        "doorStatus": {
            door: "locked" if draw.random() < locked - 0.6 else "unlocked" for door in doors
        },
        "acTemperature": float(draw.randint(17, 27)),
        "fanSpeed": draw.randrange(20, 90, 5),
        "acMode": draw.choice(("auto", "cool", "heat", "defrost")),
        "humidityLevel": float(draw.randint(30, 65)),
        "headLightStatus": draw.choice(("off", "off", "on")),
        "parkingBrakeStatus": "released",
        "parkingBrakeForce": 0.0,
        "slopeAngle": 0.0,
        "brakePedalStatus": "released",
        "brakePedalForce": 0.0,
        "distanceToNextVehicle": float(draw.randrange(20, 90, 5)),
        "cruiseStatus": "inactive",
        "destination": "None",
        "frontLeftTirePressure": pressure,
        "frontRightTirePressure": pressure + draw.choice((0.0, 0.5, -1.0)),
        "rearLeftTirePressure": pressure - draw.choice((0.0, 1.0, 2.0)),
        "rearRightTirePressure": pressure - draw.choice((0.0, 1.0, 2.0)),
    }


_MAKERS: dict[str, Callable[[random.Random, tuple[str, str]], World]] = {
    "GorillaFileSystem": _files,
    "MathAPI": _mathematics,
    "MessageAPI": _messages,
    "TwitterAPI": _posts,
    "TicketAPI": _tickets,
    "TradingBot": _trading,
    "TravelAPI": _travel,
    "VehicleControlAPI": _vehicle,
}
