"""The ticket desk answers, fails and changes its state as BFCL's TicketAPI."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fctncalling.envs.tools.bfcl.ticket_api import TicketAPI


def desk(**scenario: Any) -> TicketAPI:
    api = TicketAPI()
    api._load_scenario(scenario)
    return api


def desk_with_ticket(**fields: Any) -> TicketAPI:
    ticket = {
        "id": 7,
        "title": "t",
        "description": "",
        "status": "Open",
        "priority": 2,
        "created_by": "ann",
    }
    return desk(ticket_queue=[{**ticket, **fields}], ticket_counter=8, current_user="ann")


def test_empty_scenario_gives_defaults_in_load_order_and_nothing_else() -> None:
    assert list(vars(desk()).items()) == [
        ("ticket_queue", []),
        ("ticket_counter", 1),
        ("current_user", None),
    ]


def test_unread_keys_and_long_context_leave_no_trace() -> None:
    api = TicketAPI()
    api._load_scenario({"tickets": [1], "username": "ann"}, long_context=True)
    assert vars(api) == vars(desk())


def test_two_desks_share_no_queue() -> None:
    first, second = desk(current_user="ann"), desk(current_user="ann")
    first.create_ticket("t")
    assert second.ticket_queue == []


@pytest.mark.parametrize("priority", [0, 6, 0.5, -1])
def test_priority_outside_one_to_five_is_refused(priority: Any) -> None:
    api = desk(current_user="ann")
    expected = {"error": "Invalid priority. Priority must be between 1 and 5."}
    assert api.create_ticket("t", "", priority) == expected
    assert api.ticket_counter == 1


def test_wrong_types_surface_as_interpreter_texts() -> None:
    api: Any = desk_with_ticket()
    with pytest.raises(
        TypeError, match=r"^'<' not supported between instances of 'str' and 'int'$"
    ):
        api.create_ticket("t", priority="")
    with pytest.raises(
        TypeError,
        match=r"^TicketAPI.get_ticket\(\) missing 1 required positional argument: 'ticket_id'$",
    ):
        api.get_ticket()
    with pytest.raises(AttributeError, match=r"^'str' object has no attribute 'keys'$"):
        api.edit_ticket(7, "Closed")


def test_closing_twice_is_refused_and_needs_no_login() -> None:
    api = desk_with_ticket()
    api.logout()
    assert api.close_ticket(7) == {"status": "Ticket 7 has been closed successfully."}
    assert api.close_ticket(7) == {"error": "Ticket with ID 7 is already closed."}
    assert api.close_ticket(8) == {"error": "Ticket with ID 8 not found."}


def test_resolving_adds_the_resolution_last_and_a_closed_ticket_may_be_resolved() -> None:
    api = desk_with_ticket(status="Closed")
    assert api.resolve_ticket(7, "cut") == {"status": "Ticket 7 has been resolved successfully."}
    assert api.resolve_ticket(7, "again") == {"error": "Ticket with ID 7 is already resolved."}
    assert api.resolve_ticket(8, "x") == {"error": "Ticket with ID 8 not found."}
    assert list(api.ticket_queue[0].items())[-1] == ("resolution", "cut")
    assert api.ticket_queue[0]["status"] == "Resolved"


def test_a_ticket_without_status_raises_where_it_is_finished() -> None:
    with pytest.raises(KeyError, match=r"^'status'$"):
        desk(ticket_queue=[{"id": 1}]).close_ticket(1)


def test_one_unknown_field_refuses_the_whole_edit() -> None:
    api = desk_with_ticket()
    before = copy.deepcopy(api.ticket_queue)
    updates = {"owner": "bob", "title": "x", "assignee": "c"}
    assert api.edit_ticket(7, updates) == {"error": "Invalid fields for update: owner, assignee"}
    assert api.ticket_queue == before
    assert api.edit_ticket(8, updates) == {"error": "Ticket with ID 8 not found."}
