"""BFCL's TwitterAPI: tweets, comments and followed users of one account (`posting_api.py` there).

Deviation: BFCL's two default lists of `post_tweet` are shared by all instances of a process, so
that a mention in one task shows in another's tweets. Here each instance has its own two, shared
among its own tweets only.
"""

from __future__ import annotations

from typing import Any

from fctncalling.envs.tools import load_bfcl_table
from fctncalling.envs.tools.tool_state import snapshot

_TABLE = load_bfcl_table("posting_api")
_OWN_LIST: list[Any] = []
"""Stands, by identity, for "this instance's default list", to which a tweet without tags or
mentions refers.
"""


class TwitterAPI:
    """BFCL's Twitter account of one user.

    `tweets` is keyed by int, the keys of `comments` and `retweets` stay as loaded.
    """

    username: str
    password: str
    authenticated: bool
    tweets: dict[int, dict[str, Any]]
    comments: dict[Any, list[dict[str, Any]]]
    retweets: dict[str, list[Any]]
    following_list: list[str]
    tweet_counter: int
    _default_tags: list[Any]
    _default_mentions: list[Any]

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        """Set each public attribute from the scenario or the defaults.

        Long context changes nothing.
        """
        for name, default in _TABLE["default_state"].items():
            setattr(self, name, scenario[name] if name in scenario else snapshot(default, {}))
        self.tweets = {int(key): tweet for key, tweet in self.tweets.items()}
        self._default_tags = []
        self._default_mentions = []

    def authenticate_twitter(self, username: Any, password: Any) -> dict[str, Any]:
        """Log in with name and password; a failure does not log out."""
        if username == self.username and password == self.password:
            self.authenticated = True
            return {"authentication_status": True}
        return {"authentication_status": False}

    def posting_get_login_status(self) -> dict[str, Any]:
        """Return whether the user is logged in."""
        return {"login_status": bool(self.authenticated)}

    def post_tweet(
        self, content: Any, tags: Any = _OWN_LIST, mentions: Any = _OWN_LIST
    ) -> dict[str, Any]:
        """Post a tweet and return it."""
        if not self.authenticated:
            return {"error": "User not authenticated. Please authenticate before posting."}
        tweet = {
            "id": self.tweet_counter,
            "username": self.username,
            "content": content,
            "tags": self._default_tags if tags is _OWN_LIST else tags,
            "mentions": self._default_mentions if mentions is _OWN_LIST else mentions,
        }
        self.tweets[self.tweet_counter] = tweet
        self.tweet_counter += 1
        return tweet

    def retweet(self, tweet_id: Any) -> dict[str, Any]:
        """Retweet a tweet for the user, once."""
        if not self.authenticated:
            return {"error": "User not authenticated. Please authenticate before retweeting."}
        if tweet_id not in self.tweets:
            return _not_found(tweet_id)
        retweeted = self.retweets.setdefault(self.username, [])
        if tweet_id in retweeted:
            return {"retweet_status": "Already retweeted"}
        retweeted.append(tweet_id)
        return {"retweet_status": "Successfully retweeted"}

    def comment(self, tweet_id: Any, comment_content: Any) -> dict[str, Any]:
        """Comment on a tweet."""
        if not self.authenticated:
            return {"error": "User not authenticated. Please authenticate before commenting."}
        if tweet_id not in self.tweets:
            return _not_found(tweet_id)
        self.comments.setdefault(tweet_id, []).append(
            {"username": self.username, "content": comment_content}
        )
        return {"comment_status": "Comment added successfully"}

    def mention(self, tweet_id: Any, mentioned_usernames: Any) -> dict[str, Any]:
        """Mention users in a tweet; needs no login."""
        if tweet_id not in self.tweets:
            return _not_found(tweet_id)
        self.tweets[tweet_id]["mentions"].extend(mentioned_usernames)
        return {"mention_status": "Users mentioned successfully"}

    def follow_user(self, username_to_follow: Any) -> dict[str, Any]:
        """Follow a user; false if followed already."""
        if not self.authenticated:
            return {"error": "User not authenticated. Please authenticate before following."}
        if username_to_follow in self.following_list:
            return {"follow_status": False}
        self.following_list.append(username_to_follow)
        return {"follow_status": True}

    def list_all_following(self) -> dict[str, Any]:
        """List all users that the account is following."""
        if not self.authenticated:
            return {
                "error": "User not authenticated. Please authenticate before listing following."
            }
        return {"following_list": self.following_list}

    def unfollow_user(self, username_to_unfollow: Any) -> dict[str, Any]:
        """Unfollow a user; false if not followed."""
        if not self.authenticated:
            return {"error": "User not authenticated. Please authenticate before unfollowing."}
        if username_to_unfollow not in self.following_list:
            return {"unfollow_status": False}
        self.following_list.remove(username_to_unfollow)
        return {"unfollow_status": True}

    def get_tweet(self, tweet_id: Any) -> dict[str, Any]:
        """Return a tweet by its number."""
        if tweet_id not in self.tweets:
            return _not_found(tweet_id)
        return self.tweets[tweet_id]

    def get_user_tweets(self, username: Any) -> list[dict[str, Any]]:
        """Return all tweets of a user."""
        return [tweet for tweet in self.tweets.values() if tweet["username"] == username]

    def search_tweets(self, keyword: Any) -> list[dict[str, Any]]:
        """Return the tweets with a keyword in content or tags, in any letter case."""
        return [
            tweet
            for tweet in self.tweets.values()
            if keyword.lower() in tweet["content"].lower()
            or keyword.lower() in [tag.lower() for tag in tweet["tags"]]
        ]

    def get_tweet_comments(self, tweet_id: Any) -> list[dict[str, Any]] | dict[str, Any]:
        """Return the comments on a tweet; comments loaded under a text key are ignored."""
        if tweet_id not in self.tweets:
            return _not_found(tweet_id)
        return self.comments.get(tweet_id, [])

    def get_user_stats(self, username: Any) -> dict[str, Any]:
        """Count a user's tweets, retweets and, for the account's user, followed users."""
        return {
            "tweet_count": sum(tweet["username"] == username for tweet in self.tweets.values()),
            "following_count": len(self.following_list) if username == self.username else 0,
            "retweet_count": len(self.retweets.get(username, [])),
        }


def _not_found(tweet_id: Any) -> dict[str, Any]:
    return {"error": f"Tweet with ID {tweet_id} not found."}
