"""The travel agency answers, fails and changes its state as BFCL's TravelAPI."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import pytest

from fctncalling.envs.tools.bfcl.travel_booking import TravelAPI


def agency(**scenario: Any) -> TravelAPI:
    api = TravelAPI()
    api._load_scenario(scenario)
    return api


def open_agency(**scenario: Any) -> TravelAPI:
    """An agency with token "t" and a card "c" that holds 1000 dollars."""
    known = {
        "access_token": "t",
        "token_expires_in": 9,
        "credit_card_list": {"c": {"balance": 1000}},
    }
    return agency(**{**known, **scenario})


def test_defaults_are_public_in_load_order() -> None:
    public = {name: value for name, value in vars(agency()).items() if not name.startswith("_")}
    assert list(public.items()) == [
        ("credit_card_list", {}),
        ("booking_record", {}),
        ("access_token", None),
        ("token_type", None),
        ("token_expires_in", None),
        ("token_scope", None),
        ("user_first_name", None),
        ("user_last_name", None),
        ("budget_limit", None),
        ("long_context", False),
    ]


def test_a_scenario_may_bring_its_seed() -> None:
    token = agency(random_seed=4).authenticate_travel("i", "s", "r", "g", "a", "b")["access_token"]
    assert token == str(random.Random(4).randint(100000, 999999))


def test_before_any_login_none_is_the_right_token_except_for_registering() -> None:
    api: Any = agency()
    assert api.get_booking_history(None) == {"booking_history": {}}
    assert api.get_booking_history("t") == {"error": "Invalid access token"}
    assert api.register_credit_card(None, "1", "2", "3", 4) == {"error": "Token not initialized"}


@pytest.mark.parametrize(
    ("expires_in", "fault"), [(0, "Token expired"), (1, "Invalid access token")]
)
def test_a_bad_token_is_refused_in_each_methods_own_form(expires_in: int, fault: str) -> None:
    api = open_agency(token_expires_in=expires_in)
    error = {"error": fault}
    assert api.register_credit_card("x", "1", "2", "3", 4) == error
    assert api.get_credit_card_balance("x", "?") == error
    assert api.retrieve_invoice("x") == error
    assert api.get_booking_history("x") == error
    assert api.set_budget_limit("x", 1) == error
    flight = api.book_flight("x", "?", "2026-11-10", "SFO", "LAX", "economy")
    assert flight == {"booking_status": False, **error}
    assert api.cancel_booking("x", "?") == {"cancel_status": False, **error}
    assert api.purchase_insurance("x", "life", "?", 1, "?") == {"insurance_status": False, **error}


def test_registering_compares_the_number_with_card_ids() -> None:
    api = open_agency()
    assert api.register_credit_card("t", "c", "01/2030", "A", 1) == {
        "error": "Card already registered"
    }
    api.register_credit_card("t", "4111", "01/2030", "A", 1)
    api.register_credit_card("t", "4111", "01/2030", "A", 1)
    assert len(api.credit_card_list) == 3


def test_balance_of_an_unknown_card_lists_the_known_ones() -> None:
    api = open_agency()
    assert api.get_credit_card_balance("t", "c") == {"card_balance": 1000}
    expected = {"error": "Card not registered. Here are a list of card_id's: ['c']"}
    assert api.get_credit_card_balance("t", "?") == expected
    api.credit_card_list["d"] = {}
    with pytest.raises(KeyError, match=r"^'balance'$"):
        api.get_credit_card_balance("t", "d")


class AgencyOf2026(TravelAPI):
    """An agency on the last day of February 2026."""

    def _today(self) -> date:
        return date(2026, 2, 28)


@pytest.mark.parametrize(
    ("birth", "passport", "fault"),
    [
        ("2008-02-28", "US1", None),
        ("2008-3-1", "US1", "Traveler must be at least 18 years old."),
        ("2008-02-29", "XX", "Traveler must be at least 18 years old."),
        ("28.02.2008", "XX", "Invalid date of birth format. Please use YYYY-MM-DD."),
    ],
)
def test_travelers_are_of_age_from_their_birthday_on(
    birth: str, passport: str, fault: str | None
) -> None:
    api = AgencyOf2026()
    api._load_scenario({"user_first_name": "Ann", "user_last_name": "Lee"})
    failure = {"verification_status": False, "verification_failure": fault}
    expected = failure if fault else {"verification_status": True}
    assert api.verify_traveler_information("Ann", "Lee", birth, passport) == expected


def test_budget_limit_is_read_as_a_float() -> None:
    api: Any = open_agency()
    assert repr(api.set_budget_limit("t", 500)) == "{'budget_limit': 500.0}"
    assert api.set_budget_limit("t", "7") == {"budget_limit": 7.0}
    with pytest.raises(ValueError, match=r"^could not convert string to float: 'x'$"):
        api.set_budget_limit("t", "x")
    assert api.budget_limit == 7.0


def test_insurance_asks_budget_booking_card_and_not_the_balance() -> None:
    api = open_agency(booking_record={"b": {}}, budget_limit=5000.0)

    def fault(booking_id: str, cost: float, card_id: str) -> Any:
        result = api.purchase_insurance("t", "life", booking_id, cost, card_id)
        assert result["insurance_status"] is False
        return result["error"]

    assert fault("?", 5000.5, "?") == "Exceeded budget limit"
    assert fault("?", 5000, "?") == "Booking not found"
    assert fault("b", 5000, "?") == "Credit card not registered"
    assert api.purchase_insurance("t", "life", "b", 5000, "c")["insurance_status"] is True
    assert (api.credit_card_list, api.booking_record) == ({"c": {"balance": -4000}}, {"b": {}})


def test_support_answers_every_booking_alike_without_a_token() -> None:
    api = agency(booking_record={"b": {}})
    assert api.contact_customer_support("?", "help") == {"error": "Booking not found"}
    assert api.contact_customer_support("b", "help") == {
        "customer_support_message": "Thank you for contacting customer support. "
        "Your message has been received and we will get back to you shortly."
    }
