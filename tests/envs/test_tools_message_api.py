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


def test_scenario_values_are_taken_without_casts() -> None:
    tool = loaded(user_count="4", inbox=None, current_user=0)
    assert [vars(tool)[name] for name in ("user_count", "inbox", "current_user")] == ["4", None, 0]


def test_instances_share_no_defaults() -> None:
    first = logged_in()
    first.send_message("USR002", "hi")
    first.add_contact("Eve")
    assert len(loaded().inbox) == 3
    assert "Eve" not in loaded().user_map


def test_users_and_their_ids() -> None:
    tool = loaded()
    assert tool.list_users() == {"user_list": ["Alice", "Bob", "Catherine", "Daniel"]}
    assert tool.get_user_id("Bob") == {"user_id": "USR002"}
    assert tool.get_user_id("Zoe") == {"error": "User 'Zoe' not found in the workspace."}


def test_failed_login_keeps_the_user() -> None:
    tool = loaded()
    assert tool.message_get_login_status() == {"login_status": False}
    success = "User 'USR001' logged in successfully."
    assert tool.message_login("USR001") == {"login_status": True, "message": success}
    assert tool.message_login("USR9") == {
        "login_status": False,
        "message": "User ID 'USR9' not found.",
    }
    assert tool.message_get_login_status() == {"login_status": True}


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("send_message", ("USR9", "hi")),
        ("delete_message", ("USR9",)),
        ("view_messages_sent", ()),
        ("search_messages", (5,)),
        ("get_message_stats", ()),
    ],
)
def test_login_is_asked_for_before_anything_else(method: str, arguments: tuple[Any, ...]) -> None:
    assert getattr(loaded(current_user=""), method)(*arguments) == NO_USER


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


def test_sending_appends_and_counts() -> None:
    tool = logged_in()
    assert tool.send_message("USR9", "hi") == {"error": "Receiver ID 'USR9' not found."}
    tool.send_message("USR002", "hi")
    assert (tool.inbox[-1], tool.message_count) == ({"USR002": "hi"}, 4)


def test_deleting_removes_the_first_entry_equal_to_the_latest() -> None:
    tool = logged_in(inbox=[{"USR002": "hi"}, {"USR003": "yo"}, {"USR002": "hi"}])
    assert tool.delete_message("USR002") == {
        "deleted_status": True,
        "receiver_id": "USR002",
        "message": "Receiver USR002's latest message deleted successfully.",
    }
    assert tool.inbox == [{"USR003": "yo"}, {"USR002": "hi"}]
    assert tool.message_count == 3
    assert tool.delete_message("USR004") == {"error": "Receiver ID USR004 not found."}


def test_messages_are_shown_by_receiver_whoever_is_logged_in() -> None:
    tool = logged_in(
        inbox=[{"USR003": "a"}, {"USR002": "b"}, {"USR003": ["c"], "USR004": "never read"}]
    )
    assert list(tool.view_messages_sent()["messages"].items()) == [
        ("USR003", ["a", ["c"]]),
        ("USR002", ["b"]),
    ]
    assert tool.get_message_stats() == {"stats": {"received_count": 3, "total_contacts": 2}}


def test_contact_needs_no_login_and_raises_the_count_even_on_a_clash() -> None:
    tool = loaded(user_count=1)
    assert tool.add_contact("Alice") == {"error": "User name 'Alice' already exists."}
    assert tool.add_contact("Eve") == {"error": "User ID 'USR002' already exists."}
    tool.user_count = 41
    assert tool.add_contact("Eve") == {
        "added_status": True,
        "user_id": "USR042",
        "message": "Contact 'Eve' added successfully.",
    }
    assert (tool.user_count, tool.user_map["Eve"]) == (42, "USR042")


def test_search_ignores_letter_case() -> None:
    tool = logged_in()
    found = [
        {"receiver_id": receiver, "message": "Could you upload the file?"}
        for receiver in ("USR003", "USR004")
    ]
    assert tool.search_messages("UPLOAD") == {"results": found}
    assert tool.search_messages("zzz") == {"results": []}


@pytest.mark.parametrize("content", [["hi"], {"USR002": "hi"}])
def test_search_fails_on_shipped_messages_that_are_no_texts(content: Any) -> None:
    with pytest.raises(
        AttributeError, match=f"'{type(content).__name__}' object has no attribute 'lower'"
    ):
        logged_in(inbox=[{"USR002": content}]).search_messages("hi")


def test_copy_draws_the_same_ids_and_shares_nothing() -> None:
    tool = logged_in()
    tool.send_message("USR002", "hi")
    twin = copy.deepcopy(tool)
    assert twin.send_message("USR003", "yo") == tool.send_message("USR003", "yo")
    twin.send_message("USR003", "more")
    assert (len(tool.inbox), len(tool.generated_ids)) == (5, 2)
