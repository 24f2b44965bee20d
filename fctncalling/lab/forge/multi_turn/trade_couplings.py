"""Arguments that belong together: broker and travel."""

from __future__ import annotations

from collections.abc import Callable

from fctncalling.lab.forge.multi_turn import inventory, make_world
from fctncalling.lab.forge.multi_turn.drafter import (
    Arguments,
    Draft,
    Drafter,
    draft_of,
    fresh,
    inferred_value,
    of_kind,
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
    order_type = draw.choice(("Buy", "Buy", "Buy", "Sell"))
    return {
        "order_type": verb_implied_value("order_type", order_type),
        "symbol": symbol,
        "price": price,
        "amount": drafter.fresh("share_count"),
    }


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
    if fact.call >= 0:
        return value_from_fact(fact, "result")
    return value_from_fact(fact, "said_now" if fact.turn == drafter.turn else "said_before")


def draft_remove_stock(drafter: Drafter) -> Arguments:
    listed = drafter.state["TradingBot"]["watch_list"]
    known = drafter.known("symbol")
    if known is not None and known.value in listed:
        return {"symbol": known}
    return {"symbol": drafter._spoken("symbol", drafter.draw.choice(listed or [""]))}


def draft_add_stock(drafter: Drafter) -> Arguments:
    return {"stock": drafter.value("symbol", drafter.state["TradingBot"]["watch_list"])}


def draft_symbol_list_value(drafter: Drafter) -> Value:
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
    return {
        "stocks": draft_symbol_list_value(drafter),
        "min_price": verbatim_value("price", float(low)),
        "max_price": verbatim_value("price", float(high)),
    }


def draft_flight(drafter: Drafter) -> Arguments:
    """Return route, date and class: those of the flight asked about before, or new ones."""
    known = {kind: drafter.known(kind) for kind in ("date", "travel_class")}
    before = [f for f in drafter.knowledge.facts if f.kind == "flight"]
    draw = drafter.draw
    if before and all(known.values()) and draw.random() < 0.8:
        return _same_flight(drafter, before[-1].value)
    near = drafter.known("airport")
    routes = [r for r in inventory.ROUTES if near is None or near.value in r] or inventory.ROUTES
    start, end = draw.choice(routes)
    ends = [
        near if near is not None and near.value == code else drafter._spoken("airport", code)
        for code in (start, end)
    ]
    return {
        "travel_from": ends[0],
        "travel_to": ends[1],
        "travel_date": drafter._spoken("date", make_world.draw_date(draw)),
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


def draft_access_token_value(drafter: Drafter) -> Value:
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
    return {
        "access_token": draft_access_token_value(drafter),
        "card_id": drafter.value("card_id"),
        **draft_flight(drafter),
    }


def access_token_draft(**parts: Callable[[Drafter], Value]) -> Draft:
    """Return a draft of the token and of further arguments."""
    return draft_of(access_token=draft_access_token_value, **parts)


def _insurance_cost(drafter: Drafter) -> Value:
    return verbatim_value("amount", float(drafter.draw.randint(4, 60) * 10))


def draft_budget_limit(drafter: Drafter) -> Arguments:
    amount = drafter.knowledge.results("exchanged")[-1:]
    value = value_from_fact(amount[0], "result") if amount else drafter.fresh("amount")
    return {"access_token": draft_access_token_value(drafter), "budget_limit": value}


def draft_exchange_rate(drafter: Drafter) -> Arguments:
    code = drafter.draw.choice(inventory.CURRENCIES)
    pair = (code, "USD") if drafter.draw.random() < 0.7 else ("USD", code)
    known = drafter.known("amount") if drafter.draw.random() < 0.6 else None
    if known is not None and known.provenance == "result":
        pair = ("USD", code)  # as all costs and balances are
    else:
        known = None
    names = {"USD": "US dollars", "EUR": "euros", "JPY": "Japanese yen", "GBP": "British pounds"}
    kinds = []
    for each in pair:
        name = names.get(each)
        if name and drafter.draw.random() < 0.6 * drafter.dials.inferred * 2:
            kinds.append(inferred_value("currency", each, "currency_code", name, "currency_name"))
        else:
            kinds.append(verbatim_value("currency", each))
    return {
        "base_currency": kinds[0],
        "target_currency": kinds[1],
        "value": known or drafter.fresh("amount"),
    }


def draft_contact_support(drafter: Drafter) -> Arguments:
    return {
        "booking_id": drafter.value("booking_id"),
        "message": verbatim_value("text", inventory.draw_inquiry(drafter.draw)),
    }


def draft_verify_traveler(drafter: Drafter) -> Arguments:
    travel = drafter.state["TravelAPI"]
    return {
        "first_name": verbatim_value("first_name", travel["user_first_name"]),
        "last_name": verbatim_value("last_name", travel["user_last_name"]),
        "date_of_birth": _birth_date(drafter),
        "passport_number": drafter.fresh("passport_number"),
    }


def _birth_date(drafter: Drafter) -> Value:
    value = drafter.fresh("birth_date")
    if drafter.draw.random() < drafter.dials.inferred:
        return inferred_value(
            "birth_date", value.value, "iso_date", spoken_date(value.value), "spoken_date"
        )
    return value


def draft_authenticate_travel(drafter: Drafter) -> Arguments:
    travel = drafter.state["TravelAPI"]
    kinds = ("client_id", "client_secret", "refresh_token", "grant_type")
    return {
        **{kind: drafter.fresh(kind) for kind in kinds},
        "user_first_name": verbatim_value("first_name", travel["user_first_name"]),
        "user_last_name": verbatim_value("last_name", travel["user_last_name"]),
    }


def draft_register_card(drafter: Drafter) -> Arguments:
    travel = drafter.state["TravelAPI"]
    owner = f"{travel['user_first_name']} {travel['user_last_name']}"
    return {
        "access_token": draft_access_token_value(drafter),
        "card_number": drafter.fresh("card_number"),
        "expiration_date": drafter.fresh("expiry_date"),
        "cardholder_name": verbatim_value("person_name", owner),
        "card_verification_number": drafter.fresh("card_verification_number"),
    }


DRAFTS: dict[str, Draft] = {
    "place_order": draft_place_order,
    "remove_stock_from_watchlist": draft_remove_stock,
    "add_to_watchlist": draft_add_stock,
    "filter_stocks_by_price": draft_filter_stocks,
    "notify_price_change": draft_of(stocks=draft_symbol_list_value, threshold=fresh("percent")),
    "get_transaction_history": draft_of(),
    "get_budget_fiscal_year": draft_of(),
    "get_flight_cost": draft_flight,
    "book_flight": draft_book_flight,
    "cancel_booking": access_token_draft(booking_id=of_kind("booking_id")),
    "get_booking_history": access_token_draft(),
    "get_credit_card_balance": access_token_draft(card_id=of_kind("card_id")),
    "retrieve_invoice": access_token_draft(booking_id=of_kind("booking_id")),
    "purchase_insurance": access_token_draft(
        insurance_type=fresh("insurance_type"),
        insurance_cost=_insurance_cost,
        booking_id=of_kind("booking_id"),
        card_id=of_kind("card_id"),
    ),
    "set_budget_limit": draft_budget_limit,
    "compute_exchange_rate": draft_exchange_rate,
    "contact_customer_support": draft_contact_support,
    "verify_traveler_information": draft_verify_traveler,
    "authenticate_travel": draft_authenticate_travel,
    "register_credit_card": draft_register_card,
}
"""Function -> how its arguments are drafted together."""
