"""Dials of the forge: what a plan is like, on average."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Dials:
    """Weights that plans are drawn by. The defaults make plans like BFCL's own.

    A weight of provenance says how much a source of that sort is preferred where there is one;
    `follow_up` is the chance that a request is about what an earlier call made or showed.
    """

    turns: dict[int, float] = field(
        default_factory=lambda: {1: 3.5, 2: 33, 3: 25, 4: 22, 5: 18, 6: 5.5, 7: 1}
    )
    calls: dict[int, float] = field(
        default_factory=lambda: {1: 75, 2: 20, 3: 3.5, 4: 2, 5: 1.4, 6: 0.2, 7: 0.3}
    )
    follow_up: float = 0.85
    # Longest chain of calls that change the next one's result -> share of plans kept.
    chains: dict[int, float] = field(default_factory=lambda: {1: 0.65, 2: 1.0, 3: 0.55, 4: 0.6})
    said_now: float = 0.85
    said_again: float = 1.2  # of this turn's words, once more
    said_before: float = 0.9
    result: float = 6.5
    state: float = 3.2
    inferred: float = 0.9  # said in another form: a city for an airport
    history: int = 1  # values from earlier turns and results that a plan should have
    plain: float = 0.25  # share kept of plans that have fewer
    supply: float = 0.5  # chance to look up, unasked, what an argument can be read from


HISTORY_DIALS = Dials(
    follow_up=0.95,
    history=3,
    plain=0.0,
    chains=dict.fromkeys(range(2, 9), 1.0),
    said_now=0.1,
    said_before=2.0,
    result=4.0,
    state=0.5,
    said_again=0.5,
)
"""Earlier turns and results turned up: the newest message alone says hardly enough."""

CRITICAL_DIALS = Dials(
    turns={2: 30, 3: 45, 4: 25},
    calls={1: 25, 2: 45, 3: 20, 4: 10},
    chains=dict.fromkeys(range(2, 9), 1.0),
    said_before=2.0,
    history=1,
    plain=0.0,
)
"""More calls a turn that hang together: 6 to 16 actions, of which a wrong one is seen late."""


CLASS_WEIGHTS: dict[tuple[str, ...], float] = {
    ("TradingBot",): 10,
    ("VehicleControlAPI",): 9.5,
    ("TravelAPI", "TicketAPI"): 7.5,
    ("VehicleControlAPI", "TwitterAPI"): 7,
    ("GorillaFileSystem",): 6.5,
    ("TradingBot", "MessageAPI"): 6.5,
    ("TravelAPI",): 6.5,
    ("GorillaFileSystem", "TwitterAPI"): 6,
    ("GorillaFileSystem", "MathAPI"): 6,
    ("TravelAPI", "TwitterAPI"): 5,
    ("TravelAPI", "MessageAPI"): 5,
    ("VehicleControlAPI", "MessageAPI"): 4.5,
    ("TradingBot", "TicketAPI"): 4.5,
    ("GorillaFileSystem", "MessageAPI"): 4,
    ("VehicleControlAPI", "MathAPI"): 3,
    ("GorillaFileSystem", "TicketAPI"): 2.5,
    ("TradingBot", "MathAPI"): 2.5,
    ("TradingBot", "TwitterAPI"): 1.5,
    ("VehicleControlAPI", "TicketAPI"): 1,
    ("TravelAPI", "MathAPI"): 1,
}
"""Classes of a task -> weight."""

ANCHORS: dict[str, tuple[tuple[str, int, float], ...]] = {
    "VehicleControlAPI": (
        ("startEngine", 3, 0.95),
        ("estimate_distance", 3, 0.33),
        ("fillFuelTank", 1, 0.7),
    ),
    "TravelAPI": (("book_flight", 1, 0.6), ("get_flight_cost", 1, 0.25)),
    "TradingBot": (("place_order", 2, 0.34),),
    "GorillaFileSystem": (("touch", 2, 0.3),),
    "TicketAPI": (("create_ticket", 1, 0.3),),
    "TwitterAPI": (("post_tweet", 1, 0.3),),
}
"""Class -> what most of its tasks are about: function, calls it takes, chance."""

ANCHOR_ROOM = {name: room for each in ANCHORS.values() for name, room, _ in each}

FOLLOW_UPS: dict[str, dict[str, float]] = {
    "touch": {"echo": 18, "cp": 6, "diff": 5},
    "mkdir": {"mv": 14, "cp": 6, "cd": 5},
    "cp": {"mv": 14, "sort": 4},
    "mv": {"grep": 10, "cat": 5, "sort": 6, "diff": 2, "wc": 2, "mv": 4},
    "rmdir": {"ls": 20},
    "authenticate_twitter": {"post_tweet": 14},
    "message_login": {"send_message": 18},
    "authenticate_travel": {"register_credit_card": 30, "book_flight": 14},
    "register_credit_card": {"purchase_insurance": 200, "book_flight": 12},
}
"""Function -> what is often asked for next, and how much it is preferred."""

FUNCTION_WEIGHTS: dict[str, float] = {
    "cd": 4, "cat": 3.5, "cp": 4, "diff": 3, "du": 1, "echo": 5, "find": 1.5, "grep": 2.5, "ls": 2,
    "mkdir": 3.5, "mv": 5.5, "pwd": 0.3, "rm": 1.5, "rmdir": 2, "sort": 2, "tail": 1.5,
    "touch": 4.5, "wc": 3,
    "absolute_value": 0.4, "add": 0.4, "divide": 0.4, "imperial_si_conversion": 0.4,
    "logarithm": 0.8, "max_value": 0.8, "mean": 5, "min_value": 0.8, "multiply": 0.4,
    "percentage": 0.5, "power": 0.4, "round_number": 0.5, "si_unit_conversion": 0.4,
    "square_root": 0.5, "standard_deviation": 1.5, "subtract": 0.5, "sum_values": 0.8,
    "get_message_stats": 0.5, "list_users": 0.7, "message_get_login_status": 0.2,
    "message_login": 1.5, "search_messages": 1.0, "send_message": 5, "view_messages_sent": 5,
    "add_contact": 1.3, "delete_message": 1.2, "get_user_id": 1,
    "authenticate_twitter": 3, "comment": 2.5, "follow_user": 0.5, "get_tweet": 0.4,
    "get_tweet_comments": 0.4, "get_user_stats": 0.4, "get_user_tweets": 0.4,
    "list_all_following": 0.4, "mention": 1.5, "post_tweet": 8, "posting_get_login_status": 0.3,
    "retweet": 3, "search_tweets": 0.5, "unfollow_user": 0.4,
    "close_ticket": 3, "create_ticket": 5, "edit_ticket": 1.5, "get_ticket": 3,
    "get_user_tickets": 0.8, "logout": 0.3, "resolve_ticket": 4, "ticket_get_login_status": 0.3,
    "ticket_login": 3,
    "add_to_watchlist": 6, "cancel_order": 6, "filter_stocks_by_price": 0.4, "fund_account": 2,
    "get_account_info": 3.5, "get_available_stocks": 2.5, "get_current_time": 1,
    "get_order_details": 10, "get_order_history": 0.8, "get_stock_info": 8,
    "get_symbol_by_name": 0.8, "get_transaction_history": 0.5, "get_watchlist": 8,
    "notify_price_change": 0.4, "place_order": 5.5, "remove_stock_from_watchlist": 3,
    "trading_get_login_status": 0.3, "trading_login": 0.5, "trading_logout": 0.8,
    "withdraw_funds": 0.9,
    "authenticate_travel": 0.5, "book_flight": 8, "cancel_booking": 12,
    "compute_exchange_rate": 4, "contact_customer_support": 6, "get_all_credit_cards": 0.6,
    "get_booking_history": 0.7, "get_budget_fiscal_year": 0.3, "get_credit_card_balance": 1,
    "get_flight_cost": 12, "get_nearest_airport_by_city": 2, "list_all_airports": 1,
    "purchase_insurance": 4.5, "register_credit_card": 2, "retrieve_invoice": 11,
    "set_budget_limit": 10, "travel_get_login_status": 0.3, "verify_traveler_information": 2.2,
    "activateParkingBrake": 2.5, "adjustClimateControl": 1, "check_tire_pressure": 9,
    "displayCarStatus": 1, "display_log": 0.5, "estimate_distance": 4,
    "estimate_drive_feasibility_by_mileage": 2.5, "fillFuelTank": 12, "find_nearest_tire_shop": 3,
    "gallon_to_liter": 2, "get_current_speed": 0.4, "get_outside_temperature_from_google": 0.6,
    "get_zipcode_based_on_city": 1, "liter_to_gallon": 1, "lockDoors": 2, "pressBrakePedal": 1,
    "releaseBrakePedal": 0.5, "setCruiseControl": 1, "setHeadlights": 1, "set_navigation": 4,
    "startEngine": 14,
    "get_outside_temperature_from_weather_com": 0,
}  # fmt: skip
"""Function -> weight among its class's; 1 where not listed."""
