"""Words of requests: descriptions of every style become something that a person asks for."""

from __future__ import annotations

from random import Random

import pytest

from fctncalling.lab.own_api.kinds.evidence import infer_argument_kind
from fctncalling.lab.own_api.words.doc_sentence import imperative
from fctncalling.lab.own_api.words.spoken_values import enum_value_words, spoken_value


@pytest.mark.parametrize(
    ("name", "description", "expected"),
    [
        (
            "cancel_tour",
            "Calls a tour off and tells everybody.",
            "call a tour off and tell everybody",
        ),
        ("splitBill", "Splitting a bill in parts", "split a bill in parts"),
        ("set_diet", "Kitchen order of a patient.", "set kitchen order of a patient"),
        ("list_beds", "Beds of a ward.", "show me beds of a ward"),
        ("wash", "Laundry pick-up for a room.", "organise laundry pick-up for a room"),
        ("left", "How much work a member has.", "tell me how much work a member has"),
        ("parking", "Is there space in the garage?", "tell me about the parking"),
        ("block_card", "Key card lost? This helps.", "block the card"),
        ("give_up_plot", "A tenant stops: the plot goes back.", "give up the plot"),
        ("pick", "Grapes are picked.", "pick grapes"),
        ("cask_move", "Wine goes from one cask to another", "move the cask"),
        ("set_guard", "Start, change or end precautions.", "set the guard"),
    ],
)
def test_a_description_is_asked_for_as_an_imperative(
    name: str, description: str, expected: str
) -> None:
    assert imperative(description, name) == expected


def test_sums_in_cents_are_said_in_money_and_codes_in_small_letters() -> None:
    cents = infer_argument_kind(
        "amount_cents",
        {"type": "integer", "description": "Total in euro cents."},
        required=True,
    )
    assert "123.45" in spoken_value(cents, 12345, Random(0))
    price = infer_argument_kind("price_per_kilo", {"type": "number"}, required=True)
    assert not price.unit
    state = infer_argument_kind(
        "state", {"type": "string", "enum": ["CARE_HOME", "MRI"]}, required=True
    )
    assert "care home" in enum_value_words(state, "CARE_HOME")
    assert enum_value_words(state, "MRI") == ["MRI"]


def test_a_number_that_says_which_one_is_no_amount() -> None:
    described = {"member": "Membership number", "bags": "Number of bags"}
    kinds = [
        infer_argument_kind(name, {"type": "integer", "description": text}, required=True).kind
        for name, text in described.items()
    ]
    assert kinds == ["identifier", "integer"]
