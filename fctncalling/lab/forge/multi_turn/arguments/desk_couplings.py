"""Arguments that belong together, for the functions where drafting each alone would not do.

Messages, posts and tickets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fctncalling.lab.forge.multi_turn.arguments.drafter import (
    Arguments,
    Draft,
    Drafter,
    inferred_value,
    value_from_fact,
    verbatim_value,
)
from fctncalling.lab.forge.multi_turn.worlds import inventory
from fctncalling.lab.forge.plan import Value


def draft_text_value(drafter: Drafter, make: Callable[[Any], str]) -> Value:
    """Return a text of the user's own, now and then one that a result shows."""
    shown = [f for f in drafter.knowledge.results("text")[-1:] if _short(f.value)]
    if shown and drafter.draw.random() < 0.2 * drafter.dials.result:
        return value_from_fact(shown[0], "result")
    return verbatim_value("text", make(drafter.draw))


def _short(text: Any) -> bool:
    return isinstance(text, str) and 8 < len(text) < 200 and "\n" not in text


def draft_send_message(drafter: Drafter) -> Arguments:
    return {
        "receiver_id": _receiver(drafter),
        "message": draft_text_value(drafter, inventory.draw_short_message),
    }


def _receiver(drafter: Drafter) -> Value:
    known, me = drafter.known("user_id"), drafter.state["MessageAPI"]["current_user"]
    if known is not None and known.value != me and drafter.draw.random() < 0.75:
        return known
    users = drafter.state["MessageAPI"]["user_map"]
    others = [u for u in users.values() if u != me]
    return verbatim_value("user_id", drafter.draw.choice(others))


def draft_delete_message(drafter: Drafter) -> Arguments:
    receivers = [next(iter(each)) for each in drafter.state["MessageAPI"]["inbox"]]
    known = drafter.known("user_id")
    if known is not None and known.value in receivers:
        return {"receiver_id": known}
    return {"receiver_id": verbatim_value("user_id", drafter.draw.choice(receivers or [""]))}


def draft_message_login(drafter: Drafter) -> Arguments:
    return {
        "user_id": verbatim_value(
            "user_id", next(iter(drafter.state["MessageAPI"]["user_map"].values()))
        )
    }


def draft_user_id(drafter: Drafter) -> Arguments:
    return {"user": drafter.value("contact")}


def draft_search_messages(drafter: Drafter) -> Arguments:
    texts = [text for each in drafter.state["MessageAPI"]["inbox"] for text in each.values()]
    return {"keyword": _keyword(drafter, texts)}


def draft_search_tweets(drafter: Drafter) -> Arguments:
    texts = [tweet["content"] for tweet in drafter.state["TwitterAPI"]["tweets"].values()]
    return {"keyword": _keyword(drafter, texts)}


def _keyword(drafter: Drafter, texts: list[str]) -> Value:
    words = [word.strip(".!?,") for text in texts for word in text.split() if len(word) > 5]
    if not words:
        raise LookupError("keyword")
    return verbatim_value("keyword", drafter.draw.choice(words))


def draft_post_tweet(drafter: Drafter) -> Arguments:
    draw = drafter.draw
    arguments = {"content": draft_text_value(drafter, inventory.draw_tweet)}
    if draw.random() < 0.6:
        topics = draw.sample(inventory.TOPICS, draw.choice((1, 1, 2)))
        tags = [f"#{topic}" for topic in topics]
        if draw.random() < 0.2 * drafter.dials.inferred:
            arguments["tags"] = inferred_value("hashtag", tags, "hashtag", topics, "topic")
        else:
            arguments["tags"] = verbatim_value("hashtag", tags)
    if draw.random() < 0.3:
        names = [inventory.draw_account(draw) for _ in range(draw.choice((1, 1, 2)))]
        mentions = [f"@{name}" for name in names]
        if draw.random() < 0.5:
            arguments["mentions"] = verbatim_value("mention", mentions)
        else:
            arguments["mentions"] = inferred_value("mention", mentions, "mention", names, "account")
    return arguments


def draft_mention(drafter: Drafter) -> Arguments:
    names = [inventory.draw_account(drafter.draw) for _ in range(drafter.draw.choice((1, 1, 2)))]
    return {
        "tweet_id": drafter.value("tweet_id"),
        "mentioned_usernames": verbatim_value("account", names),
    }


def draft_comment(drafter: Drafter) -> Arguments:
    opening = drafter.draw.choice(("Great news", "Well done", "Good to know"))
    text = verbatim_value("text", f"{opening}! {inventory.draw_sentence(drafter.draw)}")
    return {"tweet_id": drafter.value("tweet_id"), "comment_content": text}


def draft_authenticate_twitter(drafter: Drafter) -> Arguments:
    posts = drafter.state["TwitterAPI"]
    return {
        "username": verbatim_value("username", posts["username"]),
        "password": verbatim_value("password", posts["password"]),
    }


def draft_twitter_account(drafter: Drafter) -> Arguments:
    if drafter.draw.random() < 0.5:
        return {"username": verbatim_value("account", drafter.state["TwitterAPI"]["username"])}
    return {"username": drafter.value("account")}


def draft_follow_user(drafter: Drafter) -> Arguments:
    return {"username_to_follow": verbatim_value("account", inventory.draw_account(drafter.draw))}


def draft_unfollow_user(drafter: Drafter) -> Arguments:
    following = drafter.state["TwitterAPI"]["following_list"]
    return {
        "username_to_unfollow": verbatim_value("account", drafter.draw.choice(following or [""]))
    }


def draft_create_ticket(drafter: Drafter) -> Arguments:
    draw = drafter.draw
    arguments = {"title": verbatim_value("title", inventory.draw_title(draw))}
    if draw.random() < 0.85:
        arguments["description"] = draft_text_value(drafter, inventory.draw_complaint)
    if draw.random() < 0.75:
        priority = draw.randint(1, 5)
        arguments["priority"] = (
            inferred_value("priority", 5, "highest_priority", "highest", "priority_word")
            if priority == 5 and draw.random() < 0.6
            else verbatim_value("priority", priority)
        )
    return arguments


def draft_resolve_ticket(drafter: Drafter) -> Arguments:
    known = drafter.known("text")
    text = known if known and drafter.draw.random() < 0.35 else None
    return {
        "ticket_id": drafter.value("ticket_id"),
        "resolution": text or verbatim_value("text", inventory.draw_resolution(drafter.draw)),
    }


def draft_login(drafter: Drafter) -> Arguments:
    return {"username": drafter.fresh("username"), "password": drafter.fresh("password")}


def draft_edit_ticket(drafter: Drafter) -> Arguments:
    draw = drafter.draw
    name = draw.choice(("priority", "priority", "status", "title"))
    values: dict[str, Any] = {
        "priority": draw.randint(1, 5),
        "status": draw.choice(("In Progress", "Pending", "On Hold")),
        "title": inventory.draw_title(draw),
    }
    return {
        "ticket_id": drafter.value("ticket_id"),
        "updates": verbatim_value("ticket_updates", {name: values[name]}),
    }


def draft_user_tickets(drafter: Drafter) -> Arguments:
    return (
        {} if drafter.draw.random() < 0.6 else {"status": verbatim_value("ticket_status", "Open")}
    )


DRAFTS: dict[str, Draft] = {
    "send_message": draft_send_message,
    "delete_message": draft_delete_message,
    "message_login": draft_message_login,
    "get_user_id": draft_user_id,
    "search_messages": draft_search_messages,
    "search_tweets": draft_search_tweets,
    "post_tweet": draft_post_tweet,
    "mention": draft_mention,
    "comment": draft_comment,
    "authenticate_twitter": draft_authenticate_twitter,
    "get_user_stats": draft_twitter_account,
    "get_user_tweets": draft_twitter_account,
    "follow_user": draft_follow_user,
    "unfollow_user": draft_unfollow_user,
    "create_ticket": draft_create_ticket,
    "resolve_ticket": draft_resolve_ticket,
    "ticket_login": draft_login,
    "trading_login": draft_login,
    "edit_ticket": draft_edit_ticket,
    "get_user_tickets": draft_user_tickets,
}
"""Function -> how its arguments are drafted together."""
