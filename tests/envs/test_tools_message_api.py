"""MessageAPI answers, draws ids and changes its state exactly as BFCL's, quirks included."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from fctncalling.envs.tools.bfcl.message_api import MessageAPI

NO_USER = {"error": "No user is currently logged in."}


def loaded(**scenario: Any) -> MessageAPI:
    tool = MessageAPI()
    tool._load_scenario(scenario)
    return tool


def logged_in(**scenario: Any) -> MessageAPI:
    return loaded(current_user="USR001", **scenario)


def test_empty_scenario_gives_defaults_in_load_order() -> None:
    public = {name: value for name, value in vars(loaded()).items() if not name.startswith("_")}
    assert list(public) == [
        "generated_ids",
        "user_count",
        "user_map",
        "inbox",
        "message_count",
        "current_user",
    ]
    assert public["generated_ids"] == set()
    assert (public["user_count"], public["message_count"], public["current_user"]) == (4, 3, None)
    assert [next(iter(entry)) for entry in public["inbox"]] == ["USR002", "USR003", "USR004"]


def test_unread_keys_and_long_context_leave_no_trace() -> None:
    tool = MessageAPI()
    tool._load_scenario({"workspace_id": "1", "messages_sent_map": {}}, long_context=True)
    assert list(vars(tool)) == list(vars(loaded()))


def test_instances_share_no_defaults() -> None:
    first = logged_in()
    first.send_message("USR002", "hi")
    first.add_contact("Eve")
    assert len(loaded().inbox) == 3
    assert "Eve" not in loaded().user_map


def test_id_drawn_before_is_drawn_again() -> None:
    stream = random.Random(200191)
    first, second = stream.randint(10000, 99999), stream.randint(10000, 99999)
    tool = logged_in(generated_ids={first})
    assert tool.send_message("USR002", "hi")["message_id"] == {"new_id": second}


def test_ids_given_as_a_list_fail_after_the_draw_and_before_the_message() -> None:
    tool = logged_in(generated_ids=[])
    with pytest.raises(AttributeError, match="'list' object has no attribute 'add'"):
        tool.send_message("USR002", "hi")
    assert (len(tool.inbox), tool.message_count) == (3, 3)


def test_search_ignores_letter_case() -> None:
    tool = logged_in()
    found = [
        {"receiver_id": receiver, "message": "Could you upload the file?"}
        for receiver in ("USR003", "USR004")
    ]
    assert tool.search_messages("UPLOAD") == {"results": found}
    assert tool.search_messages("zzz") == {"results": []}


def test_copy_draws_the_same_ids_and_shares_nothing() -> None:
    tool = logged_in()
    tool.send_message("USR002", "hi")
    twin = copy.deepcopy(tool)
    assert twin.send_message("USR003", "yo") == tool.send_message("USR003", "yo")
    twin.send_message("USR003", "more")
    assert (len(tool.inbox), len(tool.generated_ids)) == (5, 2)


@pytest.mark.parametrize("seed", [None, 7])
def test_message_ids_come_from_the_instance_own_mersenne_twister(seed: int | None) -> None:
    tool = logged_in() if seed is None else logged_in(random_seed=seed)
    expected = random.Random(200191 if seed is None else seed)
    for _ in range(3):
        drawn = expected.randint(10000, 99999)
        assert tool.send_message("USR002", "hi") == {
            "sent_status": True,
            "message_id": {"new_id": drawn},
            "message": "Message sent to 'USR002' successfully.",
        }
    assert len(tool.generated_ids) == 3
