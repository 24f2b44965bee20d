"""Long context swells what car, broker and travel agency tell, and nothing that BFCL compares but
their cards.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from fctncalling.envs.tools.bfcl.trading_bot import TradingBot
from fctncalling.envs.tools.bfcl.travel_booking import TravelAPI
from fctncalling.envs.tools.bfcl.vehicle_control import VehicleControlAPI


@pytest.fixture
def long_tables(shared: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    path = shared / "bfcl" / "data" / "long_context.json"
    monkeypatch.setenv("FCTNCALLING_LONG_CONTEXT", str(path))
    tables: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return tables


def long_car() -> VehicleControlAPI:
    api = VehicleControlAPI()
    api._load_scenario({}, long_context=True)
    return api


def test_long_context_puts_its_tables_first_or_last_even_beside_errors(
    long_tables: dict[str, Any],
) -> None:
    metadata = long_tables["CAR_STATUS_METADATA_EXTENSION"]
    assert list(long_car().displayCarStatus("roof").items()) == [
        ("metadata", metadata),
        ("error", "Invalid option"),
    ]
    brake = long_car().activateParkingBrake("engage")
    assert next(iter(brake.items())) == (
        "parkingBrakeInstruction",
        long_tables["PARKING_BRAKE_INSTRUCTION"],
    )
    cities = ("intermediaryCities", long_tables["INTERMEDIARY_CITIES"])
    assert list(long_car().estimate_distance("a", "b").items())[-1] == cities
    assert long_car().check_tire_pressure()["car_info"] == metadata
    weather = long_car().get_outside_temperature_from_google()
    temperature = random.Random(141053).uniform(-10.0, 40.0)
    assert list(weather.items()) == [
        *long_tables["LONG_WEATHER_EXTENSION"].items(),
        ("outsideTemperature", temperature),
    ]
    assert long_car().get_outside_temperature_from_google() == weather


def long_client(**scenario: Any) -> TradingBot:
    api = TradingBot()
    api._load_scenario({"authenticated": True, **scenario}, long_context=True)
    return api


def test_long_context_swells_stock_and_order_records_not_the_state(
    long_tables: dict[str, Any],
) -> None:
    api = long_client(stocks={"AAPL": {"MA(20)": 1, "price": 2}})
    stock = api.get_stock_info("AAPL")
    assert list(stock) == ["MA(20)", "price", "MA(5)"]
    assert (stock["MA(5)"], stock["MA(20)"]) == (
        long_tables["MA_5_EXTENSION"],
        long_tables["MA_20_EXTENSION"],
    )
    assert api.stocks["AAPL"] == {"MA(20)": 1, "price": 2}
    order = api.get_order_details(12345)
    assert list(order)[-1] == "metadata"
    assert list(order["metadata"]) == list(long_tables["ORDER_DETAIL_EXTENSION"])
    assert all("{symbol}" not in page for page in order["metadata"].values())
    assert any("AAPL" in page for page in order["metadata"].values())
    assert "metadata" not in api.orders[12345]


def test_long_context_raises_at_orders_without_symbol_or_record(
    long_tables: dict[str, Any],
) -> None:
    api: Any = long_client(orders={"1": {"status": "Open"}, "order_type": "Buy"})
    with pytest.raises(KeyError, match=r"^'symbol'$"):
        api.get_order_details(1)
    with pytest.raises(AttributeError, match=r"^'str' object has no attribute 'copy'$"):
        api.get_order_details("order_type")


def test_long_context_watch_list_is_bare_and_ends_in_an_ellipsis(
    long_tables: dict[str, Any],
) -> None:
    watched = long_client().get_watchlist()
    assert isinstance(watched, list)
    assert (watched[0], len(watched)) == ("NVDA", 1002)
    assert str(watched).endswith(", Ellipsis]")
    assert long_client().add_to_watchlist("AAPL") == {"watchlist": ["NVDA", "AAPL"]}


def test_long_context_appends_whole_extensions_repeats_included(
    long_tables: dict[str, Any],
) -> None:
    history: Any = long_client().get_transaction_history("2030-01-01")
    assert history == {"transaction_history": long_tables["TRANSACTION_HISTORY_EXTENSION"]}
    technology = ["AAPL", "GOOG", "MSFT", "NVDA", *long_tables["TECHNOLOGY_EXTENSION"]]
    assert long_client().get_available_stocks("Technology") == {"stock_list": technology}
    automobile = ["TSLA", "F", "GM", *long_tables["AUTOMOBILE_EXTENSION"]]
    assert long_client().get_available_stocks("Automobile") == {"stock_list": automobile}
    assert long_client().get_available_stocks("Energy") == {"stock_list": []}


def long_agency(**scenario: Any) -> TravelAPI:
    api = TravelAPI()
    api._load_scenario(scenario, long_context=True)
    return api


def test_long_context_appends_cards_and_bookings_that_are_not_there_yet(
    long_tables: dict[str, Any],
) -> None:
    cards, bookings = long_tables["CREDIT_CARD_EXTENSION"], long_tables["BOOKING_RECORD_EXTENSION"]
    taken = next(iter(cards))
    api = long_agency(credit_card_list={"own": {}, taken: {"balance": 1}})
    assert list(api.credit_card_list) == ["own", *cards]
    assert api.credit_card_list[taken] == {"balance": 1}
    assert api.booking_record == bookings


def test_long_context_cards_belong_to_one_agency_only(long_tables: dict[str, Any]) -> None:
    card_id = next(iter(long_tables["CREDIT_CARD_EXTENSION"]))
    first, second = long_agency(), long_agency()
    before = copy.deepcopy(second.credit_card_list)
    first.credit_card_list[card_id]["balance"] = -1
    assert second.credit_card_list == before
    assert long_agency().credit_card_list == before


def test_long_context_prices_all_routes_and_shows_all_bookings(long_tables: dict[str, Any]) -> None:
    known = {
        "access_token": "t",
        "token_expires_in": 9,
        "credit_card_list": {"c": {"balance": 1000}},
    }
    api = long_agency(**known)
    costs = api.get_flight_cost("OKD", "LAX", "2026-11-10", "business")["travel_cost_list"]
    assert (len(costs), costs[0], costs[-1]) == (153, 400.0, 440.0)
    booked = api.book_flight("t", "c", "2026-11-10", "OKD", "LAX", "economy")
    assert booked["booking_history"] is api.booking_record
    assert list(api.booking_record)[-1] == booked["booking_id"]
    assert api.credit_card_list["c"]["balance"] == 780.0
    with pytest.raises(ValueError, match=r"^No available route"):
        api.get_flight_cost("JFK", "JFK", "2026-11-10", "business")
