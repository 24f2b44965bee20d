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


def test_failed_login_does_not_log_out() -> None:
    tool = loaded()
    assert tool.authenticate_twitter("john", "wrong") == {"authentication_status": False}
    assert tool.posting_get_login_status() == {"login_status": False}
    assert tool.authenticate_twitter("john", "john123") == {"authentication_status": True}
    assert tool.authenticate_twitter("john", "wrong") == {"authentication_status": False}
    assert tool.posting_get_login_status() == {"login_status": True}


@pytest.mark.parametrize(
    ("method", "arguments", "doing"),
    [
        ("post_tweet", ("hi",), "posting"),
        ("retweet", (9,), "retweeting"),
        ("comment", (9, "hi"), "commenting"),
        ("follow_user", ("eve",), "following"),
        ("list_all_following", (), "listing following"),
        ("unfollow_user", ("eve",), "unfollowing"),
    ],
)
def test_login_is_asked_for_before_anything_else(
    method: str, arguments: tuple[Any, ...], doing: str
) -> None:
    expected = {"error": f"User not authenticated. Please authenticate before {doing}."}
    assert getattr(loaded(), method)(*arguments) == expected


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("retweet", (9,)),
        ("comment", (9, "hi")),
        ("mention", (9, [])),
        ("get_tweet", (9,)),
        ("get_tweet_comments", (9,)),
    ],
)
def test_unknown_tweet_is_not_found(
    tool: TwitterAPI, method: str, arguments: tuple[Any, ...]
) -> None:
    assert getattr(tool, method)(*arguments) == NOT_FOUND


def test_number_as_text_is_another_tweet(tool: TwitterAPI) -> None:
    assert tool.get_tweet("3") == {"error": "Tweet with ID 3 not found."}
    assert tool.get_tweet(3.0) == TWEET
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        tool.get_tweet([3])


def test_posting_takes_the_next_number_and_overwrites_silently(tool: TwitterAPI) -> None:
    tweet = tool.post_tweet("new", ["#a"], ["@b"])
    assert list(tweet.items()) == [
        ("id", 4),
        ("username", "ann"),
        ("content", "new"),
        ("tags", ["#a"]),
        ("mentions", ["@b"]),
    ]
    assert (tool.tweet_counter, tool.tweets[4]) == (5, tweet)
    tool.tweet_counter = 3
    tool.post_tweet("over")
    assert tool.get_tweet(3)["content"] == "over"


def test_tweets_without_mentions_share_one_list_in_their_instance(tool: TwitterAPI) -> None:
    first = tool.post_tweet("one")
    own = tool.post_tweet("own", mentions=[])
    assert tool.mention(first["id"], ["@eve"]) == {"mention_status": "Users mentioned successfully"}
    assert tool.post_tweet("two")["mentions"] == ["@eve"]
    assert own["mentions"] == []
    twin = copy.deepcopy(tool)
    twin.mention(first["id"], ["@zoe"])
    assert twin.post_tweet("three")["mentions"] == ["@eve", "@zoe"]
    assert tool.post_tweet("three")["mentions"] == ["@eve"]


def test_mention_needs_no_login_and_spreads_a_text(tool: TwitterAPI) -> None:
    tool.authenticated = False
    tool.mention(3, "ab")
    assert tool.get_tweet(3)["mentions"] == ["@bob", "a", "b"]
    del tool.tweets[3]["mentions"]
    with pytest.raises(KeyError, match="'mentions'"):
        tool.mention(3, [])


def test_retweeting_twice_is_told(tool: TwitterAPI) -> None:
    assert tool.retweet(3) == {"retweet_status": "Successfully retweeted"}
    assert tool.retweet(3) == {"retweet_status": "Already retweeted"}
    assert tool.retweets == {"ann": [3]}


def test_comments_loaded_under_text_keys_are_never_seen() -> None:
    tool = loaded(
        username="ann", authenticated=True, tweets={"3": TWEET}, comments={"3": [{"username": "x"}]}
    )
    assert tool.get_tweet_comments(3) == []
    assert tool.comment(3, "nice") == {"comment_status": "Comment added successfully"}
    assert tool.get_tweet_comments(3) == [{"username": "ann", "content": "nice"}]
    assert list(tool.comments) == ["3", 3]


def test_following_and_unfollowing(tool: TwitterAPI) -> None:
    assert tool.follow_user("eve") == {"follow_status": True}
    assert tool.follow_user("eve") == {"follow_status": False}
    assert tool.list_all_following() == {"following_list": ["alice", "bob", "eve"]}
    assert tool.unfollow_user("alice") == {"unfollow_status": True}
    assert tool.unfollow_user("alice") == {"unfollow_status": False}
    assert tool.following_list == ["bob", "eve"]


def test_stored_tweets_are_returned_with_their_own_keys() -> None:
    tool = loaded(tweets={"1": {"content": "x", "username": "ann", "likes": 2}})
    assert list(tool.get_tweet(1)) == ["content", "username", "likes"]
    assert tool.get_user_tweets("ann") == [{"content": "x", "username": "ann", "likes": 2}]
    assert tool.get_user_tweets("zoe") == []


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


def test_only_the_account_own_user_follows_anybody(tool: TwitterAPI) -> None:
    tool.retweet(3)
    assert tool.get_user_stats("ann") == {
        "tweet_count": 1,
        "following_count": 2,
        "retweet_count": 1,
    }
    assert tool.get_user_stats("bob") == {
        "tweet_count": 0,
        "following_count": 0,
        "retweet_count": 0,
    }
