"""What a world holds of each kind, read from the tools' own attributes as they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fctncalling.envs.tools import bfcl_table
from fctncalling.envs.tools.bfcl.directory_tree import Directory, File

State = Mapping[str, Mapping[str, Any]]

_ZIPCODES: dict[str, str] = bfcl_table("vehicle_control")["zipcodes"]
_AIRPORTS: dict[str, str] = bfcl_table("travel_booking")["airport_by_city"]
_COMPANIES: dict[str, str] = bfcl_table("trading_bot")["symbol_map"]
_SECTORS: dict[str, list[str]] = bfcl_table("trading_bot")["sector_map"]

CITY_OF_AIRPORT = {code: city for city, code in _AIRPORTS.items()}
COMPANY_OF_SYMBOL = {symbol: company for company, symbol in _COMPANIES.items()}
ROUTES: list[tuple[str, str]] = [
    (start, end) for start, end, _ in bfcl_table("travel_booking")["flight_base_costs"]
]
DISTANCES: list[tuple[str, str]] = [
    (start, end) for start, end, _ in bfcl_table("vehicle_control")["distances_km"]
]
CITY_OF_ZIPCODE = {code: city for city, code in _ZIPCODES.items()}
CURRENCIES: list[str] = [code for _, code, _ in bfcl_table("travel_booking")["exchange_rates"]]


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


def entities(kind: str, state: State) -> list[Any]:
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
