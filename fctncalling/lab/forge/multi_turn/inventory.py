"""Inventory of a world by kind, read from the tools' own attributes as they stand."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fctncalling.envs.tools import load_bfcl_table
from fctncalling.envs.tools.bfcl.directory_tree import Directory, File
from fctncalling.lab.own_api.english import lower_first

State = Mapping[str, Mapping[str, Any]]

_ZIPCODES: dict[str, str] = load_bfcl_table("vehicle_control")["zipcodes"]
_AIRPORTS: dict[str, str] = load_bfcl_table("travel_booking")["airport_by_city"]
_COMPANIES: dict[str, str] = load_bfcl_table("trading_bot")["symbol_map"]
_SECTORS: dict[str, list[str]] = load_bfcl_table("trading_bot")["sector_map"]

CITY_OF_AIRPORT = {code: city for city, code in _AIRPORTS.items()}
COMPANY_OF_SYMBOL = {symbol: company for company, symbol in _COMPANIES.items()}
ROUTES: list[tuple[str, str]] = [
    (start, end) for start, end, _ in load_bfcl_table("travel_booking")["flight_base_costs"]
]
DISTANCES: list[tuple[str, str]] = [
    (start, end) for start, end, _ in load_bfcl_table("vehicle_control")["distances_km"]
]
CITY_OF_ZIPCODE = {code: city for city, code in _ZIPCODES.items()}
CURRENCIES: list[str] = [code for _, code, _ in load_bfcl_table("travel_booking")["exchange_rates"]]


def files(state: State) -> dict[str, File]:
    """Return the files of the current directory."""
    here: Directory = state["GorillaFileSystem"]["_current_dir"]
    return {name: item for name, item in here.contents.items() if isinstance(item, File)}


def folders(state: State) -> dict[str, Directory]:
    """Return the directories of the current directory."""
    here: Directory = state["GorillaFileSystem"]["_current_dir"]
    return {name: item for name, item in here.contents.items() if isinstance(item, Directory)}


def _open_orders(state: State) -> list[Any]:
    return list(state["TradingBot"]["orders"])


def _tickets(state: State) -> list[Any]:
    return [ticket["id"] for ticket in state["TicketAPI"]["ticket_queue"]]


def _accounts(state: State) -> list[Any]:
    posts = state["TwitterAPI"]
    authors = [tweet["username"] for tweet in posts["tweets"].values()]
    known = dict.fromkeys([*posts["following_list"], *authors])
    return [name for name in known if name != posts["username"]]


def _companies(state: State) -> list[Any]:
    traded = state["TradingBot"]["stocks"]
    return [company for company, symbol in _COMPANIES.items() if symbol in traded]


_KINDS: dict[str, tuple[str, Callable[[State], list[Any]]]] = {
    "file_name": ("GorillaFileSystem", lambda state: list(files(state))),
    "folder": ("GorillaFileSystem", lambda state: list(folders(state))),
    "entry_name": ("GorillaFileSystem", lambda state: [*files(state), *folders(state)]),
    "contact": ("MessageAPI", lambda state: list(state["MessageAPI"]["user_map"])[1:]),
    "user_id": ("MessageAPI", lambda state: list(state["MessageAPI"]["user_map"].values())),
    "tweet_id": ("TwitterAPI", lambda state: list(state["TwitterAPI"]["tweets"])),
    "account": ("TwitterAPI", _accounts),
    "ticket_id": ("TicketAPI", _tickets),
    "symbol": ("TradingBot", lambda state: list(state["TradingBot"]["stocks"])),
    "order_id": ("TradingBot", _open_orders),
    "card_id": ("TravelAPI", lambda state: list(state["TravelAPI"]["credit_card_list"])),
    "booking_id": ("TravelAPI", lambda state: list(state["TravelAPI"]["booking_record"])),
    "access_token": ("TravelAPI", lambda state: [state["TravelAPI"]["access_token"]]),
    "airport": ("TravelAPI", lambda _: list(CITY_OF_AIRPORT)),
    "zipcode": ("VehicleControlAPI", lambda _: list(CITY_OF_ZIPCODE)),
    "company": ("TradingBot", _companies),
    "sector": ("TradingBot", lambda _: list(_SECTORS)),
    "door": ("VehicleControlAPI", lambda state: list(state["VehicleControlAPI"]["doorStatus"])),
}


def nameable_values(kind: str, state: State) -> list[Any]:
    """Return the values of a kind that a call may name now.

    None of a kind that is not listed or of a class that the task lacks.
    """
    if kind == "city":
        return list(_AIRPORTS if "TravelAPI" in state else _ZIPCODES)
    if kind not in _KINDS or _KINDS[kind][0] not in state:
        return []
    return _KINDS[kind][1](state)


REFERENCE_KINDS = frozenset({*_KINDS, "city"})
"""Kinds of which only what exists makes sense: names and numbers of things."""

LOOK_UPS: dict[str, tuple[str, str]] = {
    "card_id": ("get_all_credit_cards", "credit_card_list"),
    "order_id": ("get_order_history", "orders"),
    "ticket_id": ("get_user_tickets", "ticket_queue"),
    "booking_id": ("get_booking_history", "booking_record"),
    "symbol": ("get_watchlist", "watch_list"),
    "user_id": ("get_user_id", "user_map"),
    "account": ("list_all_following", "following_list"),
    "door": ("displayCarStatus", "doorStatus"),
    "file_name": ("ls", "root"),
    "folder": ("ls", "root"),
    "entry_name": ("ls", "root"),
}
"""Kind -> the function that shows what there is of it, and the attribute of `initial_config`."""


POOLS: dict[str, list[str]] = {
    name: entries.split(" | ")
    for name, entries in json.loads(Path(__file__).with_name("pools.json").read_text()).items()
}
FIRST_NAMES = POOLS["first_names"]
LAST_NAMES = POOLS["last_names"]
FOLDERS = POOLS["folders"]
FILE_STEMS = POOLS["file_stems"]
TOPICS = POOLS["topics"]
TICKERS = POOLS["tickers"]


def draw_sentence(draw: random.Random) -> str:
    """Return one of some 80 million plain sentences."""
    actor, act = _one(draw, "actors"), _one(draw, "acts")
    thing, when = _one(draw, "things"), _one(draw, "times")
    if draw.random() < 0.6:
        return f"{actor} {act} {thing} {when}."
    return f"{when[:1].upper()}{when[1:]}, {lower_first(actor)} {act} {thing}."


def draw_text(draw: random.Random, sentences: int) -> str:
    """Return so many sentences, each on a line of its own."""
    return "\n".join(draw_sentence(draw) for _ in range(sentences))


def draw_title(draw: random.Random) -> str:
    """Return a ticket's title."""
    return f"{_one(draw, 'troubles')} {_one(draw, 'subjects')}"


def draw_tweet(draw: random.Random) -> str:
    """Return what somebody posts."""
    if draw.random() < 0.5:
        return f"{_one(draw, 'moods')} {_one(draw, 'topics')}!"
    return f"{_one(draw, 'moods')} {_one(draw, 'topics')}. {draw_sentence(draw)}"


def draw_short_message(draw: random.Random) -> str:
    """Return what somebody writes to a colleague."""
    if draw.random() < 0.25:
        return draw_sentence(draw)
    return draw.choice(POOLS["messages"]).format(_one(draw, "things"))


def draw_complaint(draw: random.Random) -> str:
    """Return what is wrong with something, as a ticket describes it."""
    if draw.random() < 0.3:
        return draw_sentence(draw)
    return f"{_one(draw, 'symptoms')} {_one(draw, 'circumstances')}."


def draw_resolution(draw: random.Random) -> str:
    """Return how the trouble behind a ticket was solved."""
    if draw.random() < 0.15:
        return draw_sentence(draw)
    return f"{_one(draw, 'fixes')} and {_one(draw, 'afterwards')}."


def draw_inquiry(draw: random.Random) -> str:
    """Return what a traveller asks customer support."""
    return _one(draw, "inquiries").format(_one(draw, "luggage"))


def draw_file_name(draw: random.Random) -> str:
    """Return the name of a file."""
    stem = _one(draw, "file_stems")
    if draw.random() < 0.3:
        stem = f"{stem}_{_one(draw, 'file_stems')}"
    elif draw.random() < 0.2:
        stem = f"{stem}_{draw.choice((2023, 2024, 2025, 'v2', 'final'))}"
    return f"{stem}.{_one(draw, 'extensions')}"


def draw_account(draw: random.Random) -> str:
    """Return a user name as social networks have them."""
    form = draw.randrange(3)
    first, last = _one(draw, "first_names").lower(), _one(draw, "last_names").lower()
    if form == 0:
        return f"{first}_{last}"
    if form == 1:
        return f"{_one(draw, 'topics')}_{first}"
    return f"{first}{last[:1]}{draw.randint(2, 99)}"


def draw_full_name(draw: random.Random) -> str:
    """Return a first and a last name."""
    return f"{_one(draw, 'first_names')} {_one(draw, 'last_names')}"


def draw_password(draw: random.Random) -> str:
    """Return a password that occurs in no other text."""
    return f"{_one(draw, 'streets')}{draw.choice('#!$@-')}{draw.randint(100, 9999)}"


def draw_code(draw: random.Random, length: int) -> str:
    """Return small letters and digits, a letter first."""
    rest = "".join(draw.choices(string.ascii_lowercase + string.digits, k=length - 1))
    return draw.choice(string.ascii_lowercase) + rest


def draw_address(draw: random.Random) -> str:
    """Return a street address or a well-known spot."""
    if draw.random() < 0.2:
        return _one(draw, "places")
    kind = draw.choice(("Street", "Avenue", "Lane", "Road"))
    return f"{draw.randint(2, 980)} {_one(draw, 'streets')} {kind}"


def _one(draw: random.Random, name: str) -> str:
    """Return one of a pool."""
    pool = POOLS[name]
    return pool[int(draw.random() * len(pool))]
