"""BFCL's broker (`TradingBot`): stocks, orders and one account, always at half past ten."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from fctncalling.envs.tools import load_bfcl_table
from fctncalling.envs.tools.bfcl.long_context import long_context_table
from fctncalling.envs.tools.tool_state import RandomStream, snapshot

Result = dict[str, Any]

_TABLE = load_bfcl_table("trading_bot")
_DEFAULTS = {**_TABLE["default_state"], "orders": dict(_TABLE["default_state"]["orders"])}
_NOW = datetime(*_TABLE["current_time"])
_SECONDS_A_DAY = 24 * 60 * 60
_DATE = "%Y-%m-%d"
_TIMESTAMP = "%Y-%m-%d %H:%M:%S"


class TradingBot:
    """BFCL's stock broker; in long context its lists have a thousand entries.

    Amounts in dollars. Arguments are used as they come, as in BFCL: a wrong type surfaces as the
    interpreter's own error text. Some replies to a client who is not logged in are lists.
    """

    orders: dict[Any, Any]
    account_info: dict[str, Any]
    authenticated: bool
    market_status: str
    order_counter: int
    stocks: dict[str, dict[str, Any]]
    watch_list: list[str]
    transaction_history: list[dict[str, Any]]
    long_context: bool

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        for name, default in _DEFAULTS.items():
            setattr(self, name, scenario[name] if name in scenario else snapshot(default, {}))
        # JSON has no integer keys; whatever else a scenario keeps among the orders stays as it is.
        self.orders = {
            int(key) if isinstance(key, str) and key.isdigit() else key: order
            for key, order in self.orders.items()
        }
        self.long_context = long_context
        self._draws = RandomStream(scenario.get("random_seed", _TABLE["default_random_seed"]))

    def _record(self, kind: str, amount: float) -> None:
        """Add a transaction to the history, at a random time of the following day."""
        moment = _NOW + timedelta(seconds=self._draws.randint(0, _SECONDS_A_DAY))
        self.transaction_history.append(
            {"type": kind, "amount": amount, "timestamp": moment.strftime(_TIMESTAMP)}
        )

    def get_current_time(self) -> Result:
        """Return the current time, always the same."""
        return {"current_time": "10:30 AM"}

    def get_symbol_by_name(self, name: str) -> Result:
        """Return the symbol of a company, or a text that there is none."""
        return {"symbol": _TABLE["symbol_map"].get(name, "Stock not found")}

    def get_stock_info(self, symbol: str) -> Result:
        """Return a stock's figures; in long context averages are whole series."""
        if symbol not in self.stocks:
            return {"error": f"Stock with symbol '{symbol}' not found."}
        stock = self.stocks[symbol]
        if self.long_context:
            stock = stock.copy()
            stock["MA(5)"] = long_context_table("MA_5_EXTENSION")
            stock["MA(20)"] = long_context_table("MA_20_EXTENSION")
        return stock

    def get_order_details(self, order_id: int) -> Result:
        """Return the details of an order; in long context with pages about its symbol."""
        if order_id not in self.orders:
            return {
                "error": f"Order with ID {order_id} not found."
                + "Here is the list of orders_id: "
                + str(list(self.orders.keys()))
            }
        order: Result = self.orders[order_id]
        if self.long_context:
            order = order.copy()
            symbol = order["symbol"]
            pages = long_context_table("ORDER_DETAIL_EXTENSION")
            order["metadata"] = {
                name: page.replace("{symbol}", str(symbol)) for name, page in pages.items()
            }
        return order

    def cancel_order(self, order_id: int) -> Result:
        """Cancel an order that is not completed; requires no login."""
        if order_id not in self.orders:
            return {"error": f"Order with ID {order_id} not found."}
        order = self.orders[order_id]
        if order["status"] == "Completed":
            return {"error": f"Can't cancel order {order_id}. Order is already completed."}
        order["status"] = "Cancelled"
        return {"order_id": order_id, "status": "Cancelled"}

    def place_order(self, order_type: str, symbol: str, price: float, amount: int) -> Result:
        """Place an order of a stock under the next number.

        The reply says "Pending" where the record says "Open"; only a purchase is checked against
        the balance, which stays as it is.
        """
        if not self.authenticated:
            return {"error": "User not authenticated. Please log in to place an order."}
        if symbol not in self.stocks:
            return {"error": f"Invalid stock symbol: {symbol}"}
        if price <= 0 or amount <= 0:
            return {"error": "Price and amount must be positive values."}
        if order_type.lower() == "buy":
            cost = float(price) * int(amount)
            balance = self.account_info.get("balance", 0)
            if cost > balance:
                return {
                    "error": f"Insufficient funds: required ${cost:.2f} but only ${balance:.2f} "
                    "available."
                }
        price = float(price)
        order_id = self.order_counter
        self.orders[order_id] = {
            "id": order_id,
            "order_type": order_type,
            "symbol": symbol,
            "price": price,
            "amount": amount,
            "status": "Open",
        }
        self.order_counter += 1
        return {
            "order_id": order_id,
            "order_type": order_type,
            "status": "Pending",
            "price": price,
            "amount": amount,
        }

    def withdraw_funds(self, amount: float) -> Result:
        """Withdraw funds from the account while the market is open."""
        if not self.authenticated:
            return {"error": "User not authenticated. Please log in to make a transaction."}
        if self.market_status != "Open":
            return {"error": "Market is closed. Transactions are not allowed."}
        if amount <= 0:
            return {"error": "Transaction amount must be positive."}
        if amount > self.account_info["balance"]:
            return {"error": "Insufficient funds for withdrawal."}
        self.account_info["balance"] -= amount
        self._record("withdrawal", amount)
        return {"status": "Withdrawal successful", "new_balance": self.account_info["balance"]}

    def get_account_info(self) -> Result:
        """Return the account of the user who is logged in."""
        if not self.authenticated:
            return {"error": "User not authenticated. Please log in to view account information."}
        return self.account_info

    def trading_login(self, username: str, password: str) -> Result:
        """Log in with any name and password."""
        if self.authenticated:
            return {"status": "Already logged in"}
        self.authenticated = True
        return {"status": "Logged in successfully"}

    def trading_get_login_status(self) -> Result:
        """Return whether the user is logged in."""
        return {"status": bool(self.authenticated)}

    def trading_logout(self) -> Result:
        """Log the user out."""
        if not self.authenticated:
            return {"status": "No user is currently logged in"}
        self.authenticated = False
        return {"status": "Logged out successfully"}

    def fund_account(self, amount: float) -> Result:
        """Deposit money, whether the market is open or not."""
        if not self.authenticated:
            return {"error": "User not authenticated. Please log in to fund the account."}
        if amount <= 0:
            return {"error": "Funding amount must be positive."}
        self.account_info["balance"] += amount
        self._record("deposit", amount)
        return {
            "status": "Account funded successfully",
            "new_balance": self.account_info["balance"],
        }

    def remove_stock_from_watchlist(self, symbol: str) -> Result:
        """Remove a stock from the watchlist."""
        if not self.authenticated:
            return {"error": "User not authenticated. Please log in to modify the watchlist."}
        if symbol not in self.watch_list:
            return {"error": f"Stock {symbol} not found in watchlist."}
        self.watch_list.remove(symbol)
        return {"status": f"Stock {symbol} removed from watchlist successfully."}

    def get_watchlist(self) -> Result | list[str]:
        """Return the watchlist; in long context a bare list with a thousand more entries."""
        if not self.authenticated:
            return ["Error: User not authenticated. Please log in to view the watchlist."]
        if self.long_context:
            # It ends in `...`, as in BFCL.
            extension: list[str] = long_context_table("WATCH_LIST_EXTENSION")
            return self.watch_list + extension
        return {"watchlist": self.watch_list}

    def get_order_history(self) -> Result | list[Result]:
        """Return the numbers of all orders."""
        if not self.authenticated:
            return [{"error": "User not authenticated. Please log in to view order history."}]
        return {"history": list(self.orders.keys())}

    def get_transaction_history(
        self, start_date: str | None = None, end_date: str | None = None
    ) -> Result | list[Result]:
        """Return the transactions between two dates, both included."""
        if not self.authenticated:
            return [{"error": "User not authenticated. Please log in to view transaction history."}]
        start = datetime.strptime(start_date, _DATE) if start_date else datetime.min
        end = datetime.strptime(end_date, _DATE) if end_date else datetime.max
        history = [
            transaction
            for transaction in self.transaction_history
            if start <= datetime.strptime(transaction["timestamp"], _TIMESTAMP) <= end
        ]
        if self.long_context:
            history.extend(long_context_table("TRANSACTION_HISTORY_EXTENSION"))
        return {"transaction_history": history}

    def get_available_stocks(self, sector: str) -> Result:
        """Return the symbols of a sector's stocks; none for an unknown sector."""
        symbols = list(_TABLE["sector_map"].get(sector, []))
        if self.long_context and symbols:
            symbols += long_context_table(f"{sector.upper()}_EXTENSION")
        return {"stock_list": symbols}

    def filter_stocks_by_price(
        self, stocks: list[str], min_price: float, max_price: float
    ) -> Result:
        """Return the stocks within price bounds; unknown stocks count as free."""
        prices = ((symbol, self.stocks.get(symbol, {}).get("price", 0)) for symbol in stocks)
        return {
            "filtered_stocks": [
                symbol for symbol, price in prices if price >= min_price and price <= max_price
            ]
        }

    def add_to_watchlist(self, stock: str) -> Result:
        """Add a traded stock to the watchlist, once, and return the list.

        Requires no login.
        """
        if stock not in self.watch_list and stock in self.stocks:
            self.watch_list.append(stock)
        return {"watchlist": self.watch_list}

    def notify_price_change(self, stocks: list[str], threshold: float) -> Result:
        """Return the stocks with a price change of at least some percent."""
        changed = [
            symbol
            for symbol in stocks
            if symbol in self.stocks and abs(self.stocks[symbol]["percent_change"]) >= threshold
        ]
        if not changed:
            return {"notification": "No significant price changes in the selected stocks."}
        return {"notification": f"Stocks {', '.join(changed)} have significant price changes."}
