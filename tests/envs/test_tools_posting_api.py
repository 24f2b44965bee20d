"""TwitterAPI answers and changes its state exactly as BFCL's, without BFCL's lists shared by a
whole process.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fctncalling.envs.tools.bfcl.posting_api import TwitterAPI

TWEET = {
    "id": 3,
    "username": "ann",
    "content": "Hello World",
    "tags": ["#Hi"],
    "mentions": ["@bob"],
}
NOT_FOUND = {"error": "Tweet with ID 9 not found."}


def loaded(**scenario: Any) -> TwitterAPI:
    tool = TwitterAPI()
    tool._load_scenario(copy.deepcopy(scenario))
    return tool


@pytest.fixture
def tool() -> TwitterAPI:
    return loaded(username="ann", authenticated=True, tweets={"3": TWEET}, tweet_counter=4)


def test_empty_scenario_gives_defaults_in_load_order() -> None:
    public = {name: value for name, value in vars(loaded()).items() if not name.startswith("_")}
    assert list(public.items()) == [
        ("username", "john"),
        ("password", "john123"),
        ("authenticated", False),
        ("tweets", {}),
        ("comments", {}),
        ("retweets", {}),
        ("following_list", ["alice", "bob"]),
        ("tweet_counter", 0),
    ]


def test_unread_keys_and_long_context_leave_no_trace() -> None:
    tool = TwitterAPI()
    tool._load_scenario({"tweet_list": [], "user_handle": "x"}, long_context=True)
    assert vars(tool) == vars(loaded())


def test_instances_share_no_defaults() -> None:
    first = loaded(authenticated=True)
    first.follow_user("eve")
    first.post_tweet("hi")
    first.mention(0, ["@eve"])
    assert loaded().following_list == ["alice", "bob"]
    assert loaded(authenticated=True).post_tweet("hi")["mentions"] == []


def test_tweet_keys_become_numbers_and_other_keys_stay() -> None:
    tool = loaded(tweets={"3": {}, "1": {}}, comments={"3": []}, retweets={"ann": ["3"]})
    assert (list(tool.tweets), list(tool.comments)) == ([3, 1], ["3"])
    with pytest.raises(ValueError, match="invalid literal for int"):
        loaded(tweets={"x": {}})


def test_number_as_text_is_another_tweet(tool: TwitterAPI) -> None:
    assert tool.get_tweet("3") == {"error": "Tweet with ID 3 not found."}
    assert tool.get_tweet(3.0) == TWEET
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        tool.get_tweet([3])


def test_mention_needs_no_login_and_spreads_a_text(tool: TwitterAPI) -> None:
    tool.authenticated = False
    tool.mention(3, "ab")
    assert tool.get_tweet(3)["mentions"] == ["@bob", "a", "b"]
    del tool.tweets[3]["mentions"]
    with pytest.raises(KeyError, match="'mentions'"):
        tool.mention(3, [])


@pytest.mark.parametrize(
    ("keyword", "found"),
    [("WORLD", True), ("#hI", True), ("hi", False), ("zzz", False), ("", True)],
)
def test_search_takes_part_of_the_content_or_a_whole_tag(
    tool: TwitterAPI, keyword: str, found: bool
) -> None:
    assert tool.search_tweets(keyword) == ([TWEET] if found else [])


def test_search_reads_tags_only_where_the_content_does_not_match() -> None:
    tool = loaded(tweets={"1": {"content": "abc"}})
    assert tool.search_tweets("b") == [{"content": "abc"}]
    with pytest.raises(KeyError, match="'tags'"):
        tool.search_tweets("z")
