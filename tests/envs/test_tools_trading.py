"""The broker answers, fails and changes its state as BFCL's TradingBot."""

from __future__ import annotations

import copy
import random
from datetime import datetime, timedelta
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


def test_only_order_keys_of_digits_become_numbers() -> None:
    api = broker(orders={"7": {"symbol": "A"}, "order_type": "Buy", "-8": {}})
    assert api.orders == {7: {"symbol": "A"}, "order_type": "Buy", "-8": {}}


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


def test_symbols_are_known_beyond_the_stocks_traded() -> None:
    assert broker().get_symbol_by_name("Amazon") == {"symbol": "AMZN"}
    assert broker().get_symbol_by_name("amazon") == {"symbol": "Stock not found"}
    assert broker().get_stock_info("AMZN") == {"error": "Stock with symbol 'AMZN' not found."}


def test_a_scenarios_stocks_replace_the_table_and_are_answered_live() -> None:
    api = broker(stocks={"X": {"price": 1}})
    assert api.get_stock_info("X") is api.stocks["X"]
    assert "error" in api.get_stock_info("AAPL")


def test_an_unknown_order_lists_the_known_ones_without_a_blank_between() -> None:
    expected = {"error": "Order with ID 1 not found.Here is the list of orders_id: [12345, 'kind']"}
    assert broker(orders={"12345": {}, "kind": "Buy"}).get_order_details(1) == expected
    assert broker().get_order_details(12446)["symbol"] == "GOOG"


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


def test_a_new_order_takes_the_counters_place_even_if_it_is_taken() -> None:
    api = client()
    assert list(api.place_order("Buy", "AAPL", 10, 3).items()) == [
        ("order_id", 12446),
        ("order_type", "Buy"),
        ("status", "Pending"),
        ("price", 10.0),
        ("amount", 3),
    ]
    assert list(api.orders) == [12345, 12446]
    assert list(api.orders[12446].items()) == [
        ("id", 12446),
        ("order_type", "Buy"),
        ("symbol", "AAPL"),
        ("price", 10.0),
        ("amount", 3),
        ("status", "Open"),
    ]
    assert (api.order_counter, api.account_info["balance"]) == (12447, 10000.0)


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


def test_whatever_is_not_a_purchase_is_never_too_dear() -> None:
    api: Any = client(account_info={})
    assert api.place_order("Sell", "AAPL", 10**6, 1)["order_id"] == 12446
    assert api.place_order("Give", "AAPL", 10**6, 1)["order_type"] == "Give"
    poor = {"error": "Insufficient funds: required $1.00 but only $0.00 available."}
    assert api.place_order("Buy", "AAPL", 1, 1) == poor
    with pytest.raises(AttributeError, match=r"^'list' object has no attribute 'lower'$"):
        api.place_order([], "AAPL", 1, 1)


def test_money_moves_are_booked_at_drawn_moments_of_one_stream() -> None:
    api = client(market_status="Open")
    assert api.fund_account(500) == {
        "status": "Account funded successfully",
        "new_balance": 10500.0,
    }
    assert api.withdraw_funds(100.5) == {"status": "Withdrawal successful", "new_balance": 10399.5}
    stream = random.Random(1053520)
    moments = [
        datetime(2024, 9, 1, 10, 30) + timedelta(seconds=stream.randint(0, 86400)) for _ in range(2)
    ]
    assert [list(entry.items()) for entry in api.transaction_history] == [
        [("type", "deposit"), ("amount", 500), ("timestamp", str(moments[0]))],
        [("type", "withdrawal"), ("amount", 100.5), ("timestamp", str(moments[1]))],
    ]
    assert str(moments[0]) == FIRST_TIMESTAMP


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


def test_the_account_is_shown_live_to_its_owner_only() -> None:
    error = {"error": "User not authenticated. Please log in to view account information."}
    assert broker().get_account_info() == error
    api = client()
    assert api.get_account_info() is api.account_info


def test_login_checks_nothing_but_whether_it_is_the_first() -> None:
    api = broker()
    assert api.trading_get_login_status() == {"status": False}
    assert api.trading_logout() == {"status": "No user is currently logged in"}
    assert api.trading_login("", "") == {"status": "Logged in successfully"}
    assert api.trading_login("", "") == {"status": "Already logged in"}
    assert api.trading_get_login_status() == {"status": True}
    assert api.trading_logout() == {"status": "Logged out successfully"}
    assert api.authenticated is False


def test_only_adding_to_the_watch_list_works_without_login() -> None:
    api = broker()
    assert api.add_to_watchlist("AAPL") == {"watchlist": ["NVDA", "AAPL"]}
    assert api.add_to_watchlist("AAPL") == {"watchlist": ["NVDA", "AAPL"]}
    assert api.add_to_watchlist("AMZN") == {"watchlist": ["NVDA", "AAPL"]}
    error = {"error": "User not authenticated. Please log in to modify the watchlist."}
    assert api.remove_stock_from_watchlist("AAPL") == error
    listed: list[Any] = ["Error: User not authenticated. Please log in to view the watchlist."]
    assert api.get_watchlist() == listed


def test_removing_takes_the_first_of_equals() -> None:
    api = client(watch_list=["A", "B", "A"])
    assert api.remove_stock_from_watchlist("A") == {
        "status": "Stock A removed from watchlist successfully."
    }
    assert api.get_watchlist() == {"watchlist": ["B", "A"]}
    assert api.remove_stock_from_watchlist("C") == {"error": "Stock C not found in watchlist."}


def test_histories_without_login_are_lists() -> None:
    orders: list[Any] = [{"error": "User not authenticated. Please log in to view order history."}]
    assert broker().get_order_history() == orders
    transactions: list[Any] = [
        {"error": "User not authenticated. Please log in to view transaction history."}
    ]
    assert broker().get_transaction_history() == transactions
    assert client().get_order_history() == {"history": [12345, 12446]}


def test_history_ends_at_the_midnight_that_begins_its_last_day() -> None:
    days = ["2024-01-01 00:00:00", "2024-01-02 00:00:00", "2024-01-02 00:00:01"]
    api = client(transaction_history=[{"timestamp": day} for day in days])

    def shown(*bounds: Any) -> int:
        result: Any = api.get_transaction_history(*bounds)
        return len(result["transaction_history"])

    assert (shown(), shown("", ""), shown("2024-1-2"), shown(None, "2024-01-02")) == (3, 3, 2, 2)
    assert shown("2024-01-02", "2024-01-02") == 1


def test_dates_that_do_not_parse_raise_with_the_first_named_first() -> None:
    api: Any = client()
    with pytest.raises(ValueError, match=r"^time data 'zz' does not match format '%Y-%m-%d'$"):
        api.get_transaction_history("zz", -1)
    with pytest.raises(TypeError, match=r"^strptime\(\) argument 1 must be str, not int$"):
        api.get_transaction_history(None, -1)


def test_a_timestamp_that_does_not_parse_raises_even_without_bounds() -> None:
    with pytest.raises(ValueError, match=r"^time data '2024' does not match format"):
        client(transaction_history=[{"timestamp": "2024"}]).get_transaction_history()


def test_an_unknown_sector_is_empty() -> None:
    assert broker().get_available_stocks("Automobile") == {"stock_list": ["TSLA", "F", "GM"]}
    assert broker().get_available_stocks("technology") == {"stock_list": []}


def test_what_is_not_traded_is_filtered_as_free() -> None:
    api: Any = broker()
    assert api.filter_stocks_by_price(["TSLA", "AAPL", "??"], 227.16, 700) == {
        "filtered_stocks": ["TSLA", "AAPL"]
    }
    assert api.filter_stocks_by_price(["??", "AAPL"], 0, 1) == {"filtered_stocks": ["??"]}
    with pytest.raises(
        TypeError, match=r"^'>=' not supported between instances of 'int' and 'str'$"
    ):
        api.filter_stocks_by_price([1, 2, 3], "", 2.5)


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
