"""The broker answers, fails and changes its state as BFCL's TradingBot."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fctncalling.envs.tools.bfcl.trading_bot import TradingBot

FIRST_TIMESTAMP = "2024-09-02 05:40:15"


def broker(**scenario: Any) -> TradingBot:
    api = TradingBot()
    api._load_scenario(scenario)
    return api


def client(**scenario: Any) -> TradingBot:
    return broker(authenticated=True, **scenario)


def test_defaults_are_public_in_load_order() -> None:
    public = {name: value for name, value in vars(broker()).items() if not name.startswith("_")}
    assert list(public) == [
        "orders",
        "account_info",
        "authenticated",
        "market_status",
        "order_counter",
        "stocks",
        "watch_list",
        "transaction_history",
        "long_context",
    ]
    assert list(public["orders"]) == [12345, 12446]
    assert public["account_info"] == {
        "account_id": 12345,
        "balance": 10000.0,
        "binding_card": 1974202140965533,
    }
    assert (public["authenticated"], public["market_status"], public["order_counter"]) == (
        False,
        "Closed",
        12446,
    )
    assert (len(public["stocks"]), public["watch_list"], public["transaction_history"]) == (
        11,
        ["NVDA"],
        [],
    )


def test_two_brokers_share_nothing() -> None:
    first, second = client(), client()
    first.place_order("Buy", "AAPL", 1, 1)
    first.fund_account(5)
    first.add_to_watchlist("AAPL")
    first.stocks["AAPL"]["price"] = 0
    first.get_available_stocks("Technology")["stock_list"].clear()
    assert (second.orders, second.account_info, second.watch_list) == (
        broker().orders,
        broker().account_info,
        ["NVDA"],
    )
    assert second.stocks == broker().stocks
    assert second.get_available_stocks("Technology") == {
        "stock_list": ["AAPL", "GOOG", "MSFT", "NVDA"]
    }


def test_time_stands_still() -> None:
    assert broker().get_current_time() == {"current_time": "10:30 AM"}


def test_a_stray_text_among_the_orders_is_answered_as_text() -> None:
    api: Any = broker(orders={"order_type": "Buy"})
    assert api.get_order_details("order_type") == "Buy"
    with pytest.raises(TypeError, match=r"^string indices must be integers, not 'str'$"):
        api.cancel_order("order_type")


def test_cancelling_needs_no_login_and_may_be_repeated() -> None:
    api: Any = broker()
    assert api.cancel_order(12446.0) == {"order_id": 12446.0, "status": "Cancelled"}
    assert api.cancel_order(12446) == {"order_id": 12446, "status": "Cancelled"}
    assert api.orders[12446]["status"] == "Cancelled"
    assert api.cancel_order(12345) == {
        "error": "Can't cancel order 12345. Order is already completed."
    }
    assert api.cancel_order(1) == {"error": "Order with ID 1 not found."}


def test_faults_of_an_order_are_found_login_symbol_price_funds() -> None:
    login = {"error": "User not authenticated. Please log in to place an order."}
    assert broker().place_order("Buy", "?", -1, 0) == login
    api = client()
    assert api.place_order("Buy", "?", -1, 0) == {"error": "Invalid stock symbol: ?"}
    positive = {"error": "Price and amount must be positive values."}
    assert api.place_order("Buy", "AAPL", 1, 0) == positive
    assert api.place_order("Buy", "AAPL", 0, 1) == positive
    poor = {"error": "Insufficient funds: required $10000.50 but only $10000.00 available."}
    assert api.place_order("bUY", "AAPL", 10000.5, 1.9) == poor  # type: ignore[arg-type]
    assert api.order_counter == 12446


def test_withdrawing_asks_login_market_amount_balance() -> None:
    api = broker()
    assert api.withdraw_funds(0) == {
        "error": "User not authenticated. Please log in to make a transaction."
    }
    api.trading_login("a", "b")
    assert api.withdraw_funds(0) == {"error": "Market is closed. Transactions are not allowed."}
    api.market_status = "Open"
    assert api.withdraw_funds(0) == {"error": "Transaction amount must be positive."}
    assert api.withdraw_funds(10000.01) == {"error": "Insufficient funds for withdrawal."}
    assert api.withdraw_funds(10000)["new_balance"] == 0.0


def test_funding_works_while_the_market_is_closed() -> None:
    assert broker().fund_account(5) == {
        "error": "User not authenticated. Please log in to fund the account."
    }
    assert client().fund_account(0) == {"error": "Funding amount must be positive."}
    assert client().fund_account(5)["new_balance"] == 10005.0


def test_a_timestamp_that_does_not_parse_raises_even_without_bounds() -> None:
    with pytest.raises(ValueError, match=r"^time data '2024' does not match format"):
        client(transaction_history=[{"timestamp": "2024"}]).get_transaction_history()


def test_falling_prices_count_as_much_as_rising_ones() -> None:
    api = broker()
    moved = {"notification": "Stocks TSLA, AAPL have significant price changes."}
    assert api.notify_price_change(["TSLA", "MSFT", "AAPL", "??"], 0.12) == moved
    none = {"notification": "No significant price changes in the selected stocks."}
    assert api.notify_price_change(["MSFT"], 0.12) == none


def test_a_copied_broker_draws_the_same_and_leaves_the_original_alone() -> None:
    api = client()
    twin = copy.deepcopy(api)
    twin.fund_account(1)
    assert (api.transaction_history, api.account_info["balance"]) == ([], 10000.0)
    api.fund_account(1)
    assert vars(api)["transaction_history"] == twin.transaction_history
