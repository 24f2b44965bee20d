"""Drafts of arguments: broker and travel."""

from __future__ import annotations

from fctncalling.lab.forge.multi_turn import inventory, make_world
from fctncalling.lab.forge.multi_turn.drafter import (
    Arguments,
    Drafter,
    inferred_value,
    spoken_date,
    value_from_fact,
    verb_implied_value,
    verbatim_value,
)
from fctncalling.lab.forge.plan import Source, Value


def draft_place_order(drafter: Drafter) -> Arguments:
    draw = drafter.draw
    symbol = _priced(drafter) or drafter.value("symbol")
    stock = drafter.state["TradingBot"]["stocks"].get(symbol.value, {"price": 100.0})
    shown = [f for f in drafter.knowledge.results("price") if f.value == stock["price"]]
    price = (
        value_from_fact(shown[-1], "result")
        if shown and (shown[-1].turn == drafter.turn or draw.random() < 0.88)
        else verbatim_value("price", round(stock["price"] * draw.uniform(0.9, 1.1)) * 1.0)
    )
    order_type = verb_implied_value("order_type", draw.choice(("Buy", "Buy", "Buy", "Sell")))
    amount = drafter.fresh("share_count")
    return {"order_type": order_type, "symbol": symbol, "price": price, "amount": amount}


def _priced(drafter: Drafter) -> Value | None:
    """Return the stock whose price was shown last, as it was named."""
    prices = drafter.knowledge.last_result("price")
    if not prices or drafter.draw.random() < 0.15:
        return None
    stocks_now = drafter.state["TradingBot"]["stocks"]
    symbols = {symbol for symbol, each in stocks_now.items() if each["price"] == prices[-1].value}
    named = [f for f in drafter.knowledge.facts if f.kind == "symbol" and f.value in symbols]
    if not named:
        return None
    fact = named[-1]
    said_how = "said_now" if fact.turn == drafter.turn else "said_before"
    return value_from_fact(fact, "result" if fact.call >= 0 else said_how)


def watched(drafter: Drafter) -> Value:
    listed = drafter.state["TradingBot"]["watch_list"]
    known = drafter.known("symbol")
    if known is not None and known.value in listed:
        return known
    return drafter.spoken("symbol", drafter.draw.choice(listed or [""]))


def symbols(drafter: Drafter) -> Value:
    """Return a list of symbols: what a result listed last, or some that the words name."""
    facts = drafter.knowledge.results("symbol")
    listed = [f for f in facts if f.path and isinstance(f.path[-1], int)]
    if listed and drafter.draw.random() < 0.8:
        last = listed[-1]
        same = [f for f in listed if (f.turn, f.call) == (last.turn, last.call)]
        source = Source(last.turn, last.call, last.path[:-1])
        return Value("symbol", [f.value for f in same], "result", source=source)
    if drafter.draw.random() < 0.6:
        raise LookupError("symbol")
    traded = inventory.nameable_values("symbol", drafter.state)
    return verbatim_value("symbol", drafter.draw.sample(traded, drafter.draw.randint(2, 4)))


def draft_filter_stocks(drafter: Drafter) -> Arguments:
    low = drafter.draw.randrange(10, 200, 10)
    high = low + drafter.draw.randrange(100, 900, 50)
    bounds = [verbatim_value("price", float(price)) for price in (low, high)]
    return {"stocks": symbols(drafter), "min_price": bounds[0], "max_price": bounds[1]}


def draft_flight(drafter: Drafter) -> Arguments:
    """Return route, date and class: those of the flight asked about before, or new ones."""
    known = {kind: drafter.known(kind) for kind in ("date", "travel_class")}
    before = [f for f in drafter.knowledge.facts if f.kind == "flight"]
    draw = drafter.draw
    if before and all(known.values()) and draw.random() < 0.8:
        return _same_flight(drafter, before[-1].value)
    near = drafter.known("airport")
    routes = [r for r in inventory.ROUTES if near is None or near.value in r] or inventory.ROUTES
    ends = [
        near if near is not None and near.value == code else drafter.spoken("airport", code)
        for code in draw.choice(routes)
    ]
    return {
        "travel_from": ends[0],
        "travel_to": ends[1],
        "travel_date": drafter.spoken("date", make_world.draw_date(draw)),
        "travel_class": drafter.fresh("travel_class"),
    }


def _same_flight(drafter: Drafter, flight_of: tuple[int, dict[str, Value]]) -> Arguments:
    turn, values = flight_of
    if turn == drafter.turn:
        return dict(values)
    return {
        name: Value(v.kind, v.value, "said_before", rule=v.rule, source=Source(turn))
        for name, v in values.items()
    }


def access_token(drafter: Drafter) -> Value:
    """Return the access token: from a login's result, as said before, or said now."""
    current = drafter.state["TravelAPI"]["access_token"]
    facts = [f for f in drafter.knowledge.facts if f.kind == "access_token" and f.value == current]
    shown = [f for f in facts if f.call >= 0]
    if shown:
        return value_from_fact(shown[-1], "result")
    now = [f for f in facts if f.turn == drafter.turn]
    if facts and not now and drafter.draw.random() < 0.7 + 0.3 * drafter.dials.said_before:
        return value_from_fact(facts[0], "said_before")
    return verbatim_value("access_token", current)


def draft_book_flight(drafter: Drafter) -> Arguments:
    paid = {"access_token": access_token(drafter), "card_id": drafter.value("card_id")}
    return {**paid, **draft_flight(drafter)}


def draft_budget_limit(drafter: Drafter) -> Arguments:
    shown = drafter.knowledge.results("exchanged")[-1:]
    amount = value_from_fact(shown[0], "result") if shown else drafter.fresh("amount")
    return {"access_token": access_token(drafter), "budget_limit": amount}


_CURRENCIES = {
    "USD": "US dollars", "EUR": "euros", "JPY": "Japanese yen", "GBP": "British pounds"
}  # fmt: skip


def draft_exchange_rate(drafter: Drafter) -> Arguments:
    code = drafter.draw.choice(inventory.CURRENCIES)
    pair = (code, "USD") if drafter.draw.random() < 0.7 else ("USD", code)
    known = drafter.known("amount") if drafter.draw.random() < 0.6 else None
    if known is not None and known.provenance == "result":
        pair = ("USD", code)  # as all costs and balances are
    else:
        known = None
    base, target = (_currency(drafter, each) for each in pair)
    amount = known or drafter.fresh("amount")
    return {"base_currency": base, "target_currency": target, "value": amount}


def _currency(drafter: Drafter, code: str) -> Value:
    name = _CURRENCIES.get(code)
    if name and drafter.draw.random() < 0.6 * drafter.dials.inferred * 2:
        return inferred_value("currency", code, "currency_code", name, "currency_name")
    return verbatim_value("currency", code)


def birth_date(drafter: Drafter) -> Value:
    value = drafter.fresh("birth_date")
    if drafter.draw.random() < drafter.dials.inferred:
        origin = spoken_date(value.value)
        return inferred_value("birth_date", value.value, "iso_date", origin, "spoken_date")
    return value


def unwatched(drafter: Drafter) -> Value:
    return drafter.value("symbol", drafter.state["TradingBot"]["watch_list"])


def insurance_cost(drafter: Drafter) -> Value:
    return verbatim_value("amount", float(drafter.draw.randint(4, 60) * 10))
