"""BFCL's travel agency (`TravelAPI`): flights, bookings, credit cards, insurance, currencies."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from fctncalling.envs.tools import load_bfcl_table
from fctncalling.envs.tools.bfcl.long_context import long_context_table
from fctncalling.envs.tools.tool_state import RandomStream, snapshot

Result = dict[str, Any]

_TABLE = load_bfcl_table("travel_booking")
_BASE_COSTS = {(start, end): cost for start, end, cost in _TABLE["flight_base_costs"]}
_AIRPORTS: list[str] = _TABLE["airports"]
_CLASS_FACTORS: dict[str, int] = _TABLE["class_factors"]
_INVOICE_FIELDS = (
    "travel_date",
    "travel_from",
    "travel_to",
    "travel_class",
    "travel_cost",
    "transaction_id",
)
_DATE = "%Y-%m-%d"


class TravelAPI:
    """BFCL's travel agency; in long context it starts with many cards and bookings.

    BFCL keeps those in module-level objects, so that a charge shows in every later task of the
    process; here each instance has its own. Amounts in dollars. Arguments are used as they come, as
    in BFCL: a wrong type surfaces as the interpreter's own error text.
    """

    credit_card_list: dict[str, dict[str, Any]]
    booking_record: dict[str, dict[str, Any]]
    access_token: str | None
    token_type: str | None
    token_expires_in: int | None
    token_scope: str | None
    user_first_name: str | None
    user_last_name: str | None
    budget_limit: float | None
    long_context: bool

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        for name, default in _TABLE["default_state"].items():
            setattr(self, name, scenario[name] if name in scenario else snapshot(default, {}))
        self.long_context = long_context
        self._draws = RandomStream(scenario.get("random_seed", _TABLE["default_random_seed"]))
        if long_context:
            for card_id, card in long_context_table("CREDIT_CARD_EXTENSION").items():
                self.credit_card_list.setdefault(card_id, card)
            for booking_id, booking in long_context_table("BOOKING_RECORD_EXTENSION").items():
                self.booking_record.setdefault(booking_id, booking)

    def _draw(self, figure: str) -> int:
        """Draw a figure from its range."""
        return self._draws.randint(*_TABLE["random_ranges"][figure])

    def _token_fault(self, access_token: str) -> str | None:
        """Return the error of a token; before the first login None is the right token."""
        if self.token_expires_in == 0:
            return "Token expired"
        if access_token != self.access_token:
            return "Invalid access token"
        return None

    def _today(self) -> date:
        """Return the date at which ages are computed."""
        return date.today()

    def authenticate_travel(
        self,
        client_id: str,
        client_secret: str,
        refresh_token: str,
        grant_type: str,
        user_first_name: str,
        user_last_name: str,
    ) -> Result:
        """Log a user in and return a token; credentials are not checked."""
        self.token_expires_in = _TABLE["token_expires_in_after_login"]
        self.access_token = str(self._draw("access_token"))
        self.token_type = "Bearer"
        self.token_scope = grant_type
        self.user_first_name = user_first_name
        self.user_last_name = user_last_name
        return {
            "expires_in": self.token_expires_in,
            "access_token": self.access_token,
            "token_type": self.token_type,
            "scope": self.token_scope,
        }

    def travel_get_login_status(self) -> Result:
        """Return whether there is a token that has not expired."""
        return {"status": not (self.token_expires_in is None or self.token_expires_in == 0)}

    def get_budget_fiscal_year(
        self, lastModifiedAfter: str | None = None, includeRemoved: str | None = None
    ) -> Result:
        """Return the fiscal year of the budget, always the same."""
        return {"budget_fiscal_year": _TABLE["budget_fiscal_year"]}

    def register_credit_card(
        self,
        access_token: str,
        card_number: str,
        expiration_date: str,
        cardholder_name: str,
        card_verification_number: int,
    ) -> Result:
        """Register a credit card with a random id and balance.

        Only here a token that was never made counts.
        """
        if self.token_expires_in is None:
            return {"error": "Token not initialized"}
        if fault := self._token_fault(access_token):
            return {"error": fault}
        # the keys are card ids, so a number hardly ever is
        if card_number in self.credit_card_list:
            return {"error": "Card already registered"}
        card_id = str(self._draw("card_id"))
        self.credit_card_list[card_id] = {
            "card_number": card_number,
            "expiration_date": expiration_date,
            "cardholder_name": cardholder_name,
            "card_verification_number": card_verification_number,
            "balance": self._draw("card_balance"),
        }
        return {"card_id": card_id}

    def get_flight_cost(
        self, travel_from: str, travel_to: str, travel_date: str, travel_class: str
    ) -> Result:
        """Return the cost of a flight, in long context of every flight in the table.

        Raises ValueError, whose text the caller sees, for an unknown route or class.
        """
        factor = _cost_factor(travel_from, travel_to, travel_date, travel_class)
        base_costs = (
            list(_BASE_COSTS.values())
            if self.long_context
            else [_BASE_COSTS[travel_from, travel_to]]
        )
        return {"travel_cost_list": [float(base_cost * factor) for base_cost in base_costs]}

    def get_credit_card_balance(self, access_token: str, card_id: str) -> Result:
        """Return the balance of a credit card."""
        if fault := self._token_fault(access_token):
            return {"error": fault}
        if card_id not in self.credit_card_list:
            return {
                "error": "Card not registered. Here are a list of card_id's: "
                + str(list(self.credit_card_list.keys()))
            }
        return {"card_balance": self.credit_card_list[card_id]["balance"]}

    def book_flight(
        self,
        access_token: str,
        card_id: str,
        travel_date: str,
        travel_from: str,
        travel_to: str,
        travel_class: str,
    ) -> Result:
        """Book a flight and charge the card.

        The budget limit is held against the card's balance, as in BFCL.
        """
        fault = self._booking_fault(
            access_token, card_id, travel_date, travel_from, travel_to, travel_class
        )
        if fault:
            return {"booking_status": False, "error": fault}
        try:
            factor = _cost_factor(travel_from, travel_to, travel_date, travel_class)
        except ValueError as error:
            return {"booking_status": False, "error": str(error)}
        cost = float(_BASE_COSTS[travel_from, travel_to] * factor)
        card = self.credit_card_list[card_id]
        if card["balance"] < cost:
            return {"booking_status": False, "error": "Insufficient funds"}
        if self.budget_limit is not None and card["balance"] < self.budget_limit:
            return {"booking_status": False, "error": "Balance is less than budget limit"}
        card["balance"] -= cost
        booking_id = str(self._draw("booking_id"))
        transaction_id = str(self._draw("transaction_id"))
        self.booking_record[booking_id] = {
            "card_id": card_id,
            "travel_date": travel_date,
            "travel_from": travel_from,
            "travel_to": travel_to,
            "travel_class": travel_class,
            "travel_cost": cost,
            "transaction_id": transaction_id,
        }
        return {
            "booking_id": booking_id,
            "transaction_id": transaction_id,
            "booking_status": True,
            "booking_history": self.booking_record if self.long_context else {},
        }

    def _booking_fault(
        self,
        access_token: str,
        card_id: str,
        travel_date: str,
        travel_from: str,
        travel_to: str,
        travel_class: str,
    ) -> str | None:
        """Return the first error of a booking, before its cost is computed."""
        if fault := self._token_fault(access_token):
            return fault
        if card_id not in self.credit_card_list:
            return "Card not registered"
        if "balance" not in self.credit_card_list[card_id]:
            return "Balance not found"
        if travel_from not in _AIRPORTS:
            return f"Invalid departure airport code: {travel_from}"
        if travel_to not in _AIRPORTS:
            return f"Invalid destination airport code: {travel_to}"
        try:
            datetime.strptime(travel_date, _DATE)
        except ValueError:
            return "Invalid date format. Use YYYY-MM-DD."
        # BFCL prints a set here, so its order follows the hash seed; ours is that of the factors.
        if travel_class not in _CLASS_FACTORS:
            classes = ", ".join(repr(name) for name in _CLASS_FACTORS)
            return f"Invalid travel class. Must be one of {{{classes}}}"
        return None

    def retrieve_invoice(
        self, access_token: str, booking_id: str | None = None, insurance_id: str | None = None
    ) -> Result:
        """Return the invoice of a booking; insurances have none."""
        if fault := self._token_fault(access_token):
            return {"error": fault}
        if booking_id is None or booking_id not in self.booking_record:
            return {"error": "Booking not found"}
        booking = self.booking_record[booking_id]
        return {
            "invoice": {
                "booking_id": booking_id,
                **{name: booking[name] for name in _INVOICE_FIELDS},
            }
        }

    def get_booking_history(self, access_token: str) -> Result:
        """Return a copy of all bookings."""
        if fault := self._token_fault(access_token):
            return {"error": fault}
        return {"booking_history": snapshot(self.booking_record, {})}

    def list_all_airports(self) -> list[str]:
        """List all airports by code."""
        return list(_AIRPORTS)

    def cancel_booking(self, access_token: str, booking_id: str) -> Result:
        """Cancel a booking and refund its cost to the card."""
        if fault := self._token_fault(access_token):
            return {"cancel_status": False, "error": fault}
        if booking_id not in self.booking_record:
            return {"cancel_status": False, "error": "Booking not found"}
        booking = self.booking_record[booking_id]
        card_id, cost = booking["card_id"], booking["travel_cost"]
        self.credit_card_list[card_id]["balance"] += cost
        del self.booking_record[booking_id]
        return {"cancel_status": True}

    def compute_exchange_rate(
        self, base_currency: str, target_currency: str, value: float
    ) -> Result:
        """Convert an amount between currencies; only conversion to dollars is rounded.

        Raises ValueError, whose text the caller sees, for a pair without dollars.
        """
        for source, target, rate in _TABLE["exchange_rates"]:
            if base_currency == source and target_currency == target:
                return {"exchanged_value": float(value * rate)}
            if base_currency == target and target_currency == source:
                return {"exchanged_value": round(value / rate, 2)}
        raise ValueError("No available exchange rate for the given currencies.")

    def verify_traveler_information(
        self, first_name: str, last_name: str, date_of_birth: str, passport_number: str
    ) -> Result:
        """Check the user's name, age today and US passport."""
        fault = self._traveler_fault(first_name, last_name, date_of_birth, passport_number)
        if fault:
            return {"verification_status": False, "verification_failure": fault}
        return {"verification_status": True}

    def _traveler_fault(
        self, first_name: str, last_name: str, date_of_birth: str, passport_number: str
    ) -> str | None:
        """Return the first error in a traveller's data."""
        if first_name != self.user_first_name or last_name != self.user_last_name:
            return (
                f"Cannot book flight information for another user.Expected {self.user_first_name} "
                f"{self.user_last_name}, got {first_name} {last_name}"
            )
        try:
            birth = datetime.strptime(date_of_birth, _DATE)
        except ValueError:
            return "Invalid date of birth format. Please use YYYY-MM-DD."
        today = self._today()
        age = today.year - birth.year - ((today.month, today.day) < (birth.month, birth.day))
        if age < 18:
            return "Traveler must be at least 18 years old."
        if not passport_number.startswith("US"):
            return "Passport must be issued by the United States."
        return None

    def set_budget_limit(self, access_token: str, budget_limit: float) -> Result:
        """Set the limit for bookings and insurances."""
        if fault := self._token_fault(access_token):
            return {"error": fault}
        self.budget_limit = float(budget_limit)
        return {"budget_limit": self.budget_limit}

    def get_nearest_airport_by_city(self, location: str) -> Result:
        """Return the code of a city's nearest airport, or "Unknown"."""
        return {"nearest_airport": _TABLE["airport_by_city"].get(location, "Unknown")}

    def purchase_insurance(
        self,
        access_token: str,
        insurance_type: str,
        booking_id: str,
        insurance_cost: float,
        card_id: str,
    ) -> Result:
        """Buy an insurance and charge a card, with any balance.

        Nothing else is recorded.
        """
        fault = self._token_fault(access_token)
        if not fault and self.budget_limit is not None and self.budget_limit < insurance_cost:
            fault = "Exceeded budget limit"
        if not fault and booking_id not in self.booking_record:
            fault = "Booking not found"
        if not fault and card_id not in self.credit_card_list:
            fault = "Credit card not registered"
        if fault:
            return {"insurance_status": False, "error": fault}
        self.credit_card_list[card_id]["balance"] -= insurance_cost
        return {"insurance_id": str(self._draw("insurance_id")), "insurance_status": True}

    def contact_customer_support(self, booking_id: str, message: str) -> Result:
        """Return the customer support's answer, always the same."""
        if booking_id not in self.booking_record:
            return {"error": "Booking not found"}
        return {
            "customer_support_message": "Thank you for contacting customer support. "
            "Your message has been received and we will get back to you shortly."
        }

    def get_all_credit_cards(self) -> Result:
        """Return all credit cards; requires no token."""
        return {"credit_card_list": self.credit_card_list}


def _cost_factor(travel_from: str, travel_to: str, travel_date: str, travel_class: str) -> int:
    """Return a route's cost factor by class, doubled for dates with an even digit sum.

    Raises ValueError for an unknown route, then for an unknown class.
    """
    if (travel_from, travel_to) not in _BASE_COSTS:
        raise ValueError("No available route for the given airports.")
    for name, factor in _CLASS_FACTORS.items():
        if name == travel_class:
            digits = [int(character) for character in travel_date if character.isdigit()]
            return factor * (1 if sum(digits) % 2 else 2)
    raise ValueError("Invalid travel class. Options are: economy, business, first.")
