"""Habits of users and assistants: what goes with what, where the tools would allow anything."""

from __future__ import annotations

from fctncalling.lab.forge.multi_turn.worlds import inventory

LOGINS = {
    "authenticate_twitter": ("TwitterAPI", "authenticated"),
    "ticket_login": ("TicketAPI", "current_user"),
    "message_login": ("MessageAPI", "current_user"),
    "trading_login": ("TradingBot", "authenticated"),
}
"""Login -> its class, and the attribute that tells whether somebody is logged in."""
SUPPLIED = {
    "estimate_distance": ("zipcode", "get_zipcode_based_on_city", 2, 0.97),
    "fillFuelTank": ("gallon", "liter_to_gallon", 1, 0.0),
    "place_order": ("price", "get_stock_info", 1, 0.9),
    "send_message": ("user_id", "get_user_id", 1, 0.0),
    "book_flight": ("airport", "get_nearest_airport_by_city", 2, 0.0),
    "get_flight_cost": ("airport", "get_nearest_airport_by_city", 2, 0.0),
    "set_budget_limit": ("exchanged", "compute_exchange_rate", 1, 0.0),
}
"""Function -> what may be looked up for it, where, how often, at least with this chance."""
ROOMY = {"startEngine": (3, 12.0), "estimate_distance": (3, 9.0), "fillFuelTank": (2, 1.5),
          "place_order": (2, 2.0)}  # fmt: skip
"""Function -> calls it takes with its steps, how much it is preferred where there is room."""
TELLING = (inventory.REFERENCE_KINDS - {"access_token"}) | {
    "gallon", "kilometers", "exchanged", "pressure", "place"
}  # fmt: skip
"""Kinds of which the same value tells that two calls have to do with each other."""
ALIKE = {"destination": "folder", "entry_name": "file_name"}
"""Kind -> what else its values may stand for."""
OPPOSITES = {
    "remove_stock_from_watchlist": "add_to_watchlist",
    "add_to_watchlist": "remove_stock_from_watchlist",
    "unfollow_user": "follow_user",
    "rmdir": "mkdir",
    "releaseBrakePedal": "pressBrakePedal",
}
"""Function -> the one that it undoes."""
SETTINGS = frozenset({"set_budget_limit", "set_navigation", "fillFuelTank", "adjustClimateControl"})
"""Functions that set something which few people change twice."""
MADE_BY_CALLS = {"order_id", "booking_id", "tweet_id", "ticket_id"}
"""Kinds that there are none of until a call makes them."""
NEVER_UNASKED = {"close_ticket", "mkdir"}
"""Functions that would help, but nobody wants them unasked."""
MADE = {
    "new_file": "file_name",
    "destination": "file_name",
    "new_folder": "folder",
    "new_contact": "contact",
}
"""Kind of something new -> what it is from then on."""
