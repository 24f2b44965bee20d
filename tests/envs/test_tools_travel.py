"""The travel agency answers, fails and changes its state as BFCL's TravelAPI."""

from __future__ import annotations

import copy
import random
from datetime import date
from typing import Any

import pytest

from fctncalling.envs.tools.bfcl.travel_booking import TravelAPI

SEED = 141053
EVEN_DATE, ODD_DATE = "2026-11-11", "2026-11-10"  # digits summing to 14 and 13


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


def book(api: TravelAPI, **changes: Any) -> dict[str, Any]:
    flight = {
        "access_token": "t",
        "card_id": "c",
        "travel_date": ODD_DATE,
        "travel_from": "SFO",
        "travel_to": "LAX",
        "travel_class": "economy",
    }
    return api.book_flight(**{**flight, **changes})


def test_every_figure_is_drawn_from_one_stream_in_call_order() -> None:
    stream, api = random.Random(SEED), agency()
    token = api.authenticate_travel("i", "s", "r", "g", "a", "b")["access_token"]
    assert token == str(stream.randint(100000, 999999))
    card_id = api.register_credit_card(token, "4111", "01/2030", "A B", 123)["card_id"]
    assert card_id == str(stream.randint(100000000000, 999999999999))
    assert list(api.credit_card_list[card_id].items()) == [
        ("card_number", "4111"),
        ("expiration_date", "01/2030"),
        ("cardholder_name", "A B"),
        ("card_verification_number", 123),
        ("balance", stream.randint(10000, 99999)),
    ]
    booked = book(api, access_token=token, card_id=card_id)
    assert booked["booking_id"] == str(stream.randint(1000000, 9999999))
    assert booked["transaction_id"] == str(stream.randint(10000000, 99999999))
    insured = api.purchase_insurance(token, "life", booked["booking_id"], 1, card_id)
    assert insured == {
        "insurance_id": str(stream.randint(100000000, 999999999)),
        "insurance_status": True,
    }


def test_a_copied_agency_draws_the_same_and_leaves_the_original_alone() -> None:
    api = open_agency()
    twin = copy.deepcopy(api)
    booked = book(twin)
    assert (api.booking_record, api.credit_card_list) == ({}, {"c": {"balance": 1000}})
    assert book(api) == booked


def test_booking_charges_the_card_and_records_the_flight() -> None:
    api = open_agency()
    result = book(api)
    assert list(result) == ["booking_id", "transaction_id", "booking_status", "booking_history"]
    assert (result["booking_status"], result["booking_history"]) == (True, {})
    assert repr(api.credit_card_list["c"]["balance"]) == "800.0"
    assert list(api.booking_record[result["booking_id"]].items()) == [
        ("card_id", "c"),
        ("travel_date", ODD_DATE),
        ("travel_from", "SFO"),
        ("travel_to", "LAX"),
        ("travel_class", "economy"),
        ("travel_cost", 200.0),
        ("transaction_id", result["transaction_id"]),
    ]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"card_id": "d", "travel_from": "?"}, "Balance not found"),
        ({"travel_from": "PVG", "travel_to": "?"}, "Invalid departure airport code: PVG"),
        ({"travel_from": ["SFO"]}, "Invalid departure airport code: ['SFO']"),
        ({"travel_from": "JFK", "travel_to": "PVG"}, "Invalid destination airport code: PVG"),
        ({"travel_date": "tomorrow", "travel_class": "?"}, "Invalid date format. Use YYYY-MM-DD."),
        ({"travel_from": "LHR", "travel_to": "SFO"}, "No available route for the given airports."),
        ({"travel_class": "first", "travel_date": EVEN_DATE}, "Insufficient funds"),
        ({"card_id": "e"}, "Balance is less than budget limit"),
    ],
)
def test_the_first_fault_of_a_booking_is_told_and_nothing_changes(
    changes: dict[str, Any], fault: str
) -> None:
    cards = {"c": {"balance": 1000}, "d": {}, "e": {"balance": 300}}
    api = open_agency(credit_card_list=cards, budget_limit=500.0)
    assert book(api, **changes) == {"booking_status": False, "error": fault}
    assert (api.booking_record, api.credit_card_list) == (
        {},
        {"c": {"balance": 1000}, "d": {}, "e": {"balance": 300}},
    )


def test_a_wrong_class_names_the_classes_in_a_fixed_order() -> None:
    error = "Invalid travel class. Must be one of {'economy', 'business', 'first'}"
    result = book(open_agency(), travel_class="?", travel_from="LHR", travel_to="SFO")
    assert result == {"booking_status": False, "error": error}


def test_a_date_that_is_no_text_raises() -> None:
    with pytest.raises(TypeError, match=r"^strptime\(\) argument 1 must be str, not int$"):
        book(open_agency(), travel_date=20261110)


def test_a_date_without_leading_zeros_is_a_date() -> None:
    assert book(open_agency(), travel_date="2026-1-5")["booking_status"] is True


def test_invoice_shows_a_booking_and_raises_at_its_first_missing_field() -> None:
    api = open_agency(booking_record={"old": {"flight": "X"}})
    booking_id = book(api)["booking_id"]
    invoice = api.retrieve_invoice("t", booking_id)["invoice"]
    record = api.booking_record[booking_id]
    assert list(invoice) == ["booking_id", *list(record)[1:]]
    assert invoice == {
        "booking_id": booking_id,
        **{name: value for name, value in record.items() if name != "card_id"},
    }
    assert api.retrieve_invoice("t", insurance_id=booking_id) == {"error": "Booking not found"}
    with pytest.raises(KeyError, match=r"^'travel_date'$"):
        api.retrieve_invoice("t", "old")


def test_booking_history_is_a_copy_and_the_cards_are_live() -> None:
    api = open_agency(booking_record={"b": {"x": 1}})
    api.get_booking_history("t")["booking_history"]["b"]["x"] = 2
    assert api.booking_record == {"b": {"x": 1}}
    assert api.get_all_credit_cards()["credit_card_list"] is api.credit_card_list


def test_cancelling_pays_back_before_it_forgets() -> None:
    api = open_agency()
    booking_id = book(api)["booking_id"]
    assert api.cancel_booking("t", booking_id) == {"cancel_status": True}
    assert (api.booking_record, api.credit_card_list["c"]["balance"]) == ({}, 1000.0)
    assert api.cancel_booking("t", booking_id) == {
        "cancel_status": False,
        "error": "Booking not found",
    }


@pytest.mark.parametrize(
    ("record", "key"),
    [({}, "card_id"), ({"card_id": "z"}, "travel_cost"), ({"card_id": "z", "travel_cost": 1}, "z")],
)
def test_cancelling_an_incomplete_booking_raises_and_keeps_it(
    record: dict[str, Any], key: str
) -> None:
    api = open_agency(booking_record={"b": record})
    with pytest.raises(KeyError, match=rf"^'{key}'$"):
        api.cancel_booking("t", "b")
    assert api.booking_record == {"b": record}
