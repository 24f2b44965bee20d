"""Arguments that belong together, for the functions where drafting each alone would not do.

Messages, posts, tickets and files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fctncalling.lab.forge.multi_turn import inventory
from fctncalling.lab.forge.multi_turn.drafter import (
    Arguments,
    Draft,
    Drafter,
    draft_of,
    fresh,
    inferred_value,
    of_kind,
    value_from_fact,
    verb_implied_value,
    verbatim_value,
)
from fctncalling.lab.forge.plan import Value


def _file(drafter: Drafter, *, longer_than: int = 0) -> tuple[Value, str]:
    """Return a file of the current directory and its content."""
    here = inventory.files(drafter.state)
    short = [n for n, item in here.items() if len(str(item.content).splitlines()) <= longer_than]
    name = drafter.value("file_name", short if longer_than else ())
    return name, str(here[name.value].content)


def draft_grep(drafter: Drafter) -> Arguments:
    name, content = _file(drafter, longer_than=1)
    words = [word.strip(".!?,") for word in content.split() if len(word) > 4]
    if not words:
        raise LookupError("pattern")
    return {"file_name": name, "pattern": verbatim_value("pattern", drafter.draw.choice(words))}


def draft_tail(drafter: Drafter) -> Arguments:
    name, content = _file(drafter)
    most = max(1, len(content.splitlines()) - 1)
    return {"file_name": name, "lines": verbatim_value("line_count", drafter.draw.randint(1, most))}


def draft_wc(drafter: Drafter) -> Arguments:
    name, _ = _file(drafter)
    modes = {"l": "lines", "w": "words", "c": "characters"}
    mode = drafter.draw.choice(list(modes))
    if mode == "l" and drafter.draw.random() < 0.3:
        return {"file_name": name}
    return {
        "file_name": name,
        "mode": inferred_value("count_mode", mode, "count_mode", modes[mode], "counted"),
    }


def draft_find(drafter: Drafter) -> Arguments:
    names = [*inventory.files(drafter.state), *inventory.folders(drafter.state)]
    below = [n for each in inventory.folders(drafter.state).values() for n in each.contents]
    if not names + below:
        raise LookupError("name_part")
    part = drafter.draw.choice(names + below).split(".")[0].split("_")[0]
    path = verb_implied_value("folder_path", ".")
    return {"path": path, "name": verbatim_value("name_part", part or ".")}


def switch_draft(name: str, chance: float) -> Draft:
    """Return a draft of a switch that is on now and then, and else left out."""

    def draft(drafter: Drafter) -> Arguments:
        is_on = drafter.draw.random() < chance
        return {name: verb_implied_value("switch", True)} if is_on else {}

    return draft


def draft_move_or_copy(drafter: Drafter) -> Arguments:
    """Move or copy a file into a directory, or under a new name."""
    source = replace(drafter.value("file_name"), kind="entry_name")
    places = inventory.folders(drafter.state)
    if places and drafter.draw.random() < 0.7:
        return {
            "source": source,
            "destination": replace(drafter.value("folder"), kind="destination"),
        }
    stem, dot, ending = str(source.value).rpartition(".")
    new = drafter.draw.choice(inventory.FILE_STEMS)
    new_name = f"{new}.{ending}" if stem and dot else new
    if new_name in {*inventory.files(drafter.state), *places}:
        raise LookupError("destination")
    return {"source": source, "destination": verbatim_value("destination", new_name)}


def draft_diff(drafter: Drafter) -> Arguments:
    first = drafter.value("file_name")
    second = drafter.value("file_name", (first.value,))
    return {"file_name1": first, "file_name2": second}


def draft_echo(drafter: Drafter) -> Arguments:
    empty = [n for n, item in inventory.files(drafter.state).items() if not item.content]
    name = (
        drafter.value("file_name")
        if not empty
        else drafter.value(
            "file_name", [n for n in inventory.files(drafter.state) if n not in empty]
        )
    )
    content = draft_text_value(drafter, inventory.draw_sentence)
    if content.value == inventory.files(drafter.state)[name.value].content:
        raise LookupError("text")  # it says so already
    return {"content": content, "file_name": name}


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


DRAFT_LOGIN = draft_of(username=fresh("username"), password=fresh("password"))
DRAFTS: dict[str, Draft] = {
    "send_message": draft_send_message,
    "delete_message": draft_delete_message,
    "message_login": draft_message_login,
    "get_user_id": draft_of(user=of_kind("contact")),
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
    "ticket_login": DRAFT_LOGIN,
    "trading_login": DRAFT_LOGIN,
    "edit_ticket": draft_edit_ticket,
    "get_user_tickets": draft_user_tickets,
    "grep": draft_grep,
    "tail": draft_tail,
    "wc": draft_wc,
    "find": draft_find,
    "ls": switch_draft("a", 0.4),
    "du": switch_draft("human_readable", 0.7),
    "mv": draft_move_or_copy,
    "cp": draft_move_or_copy,
    "diff": draft_diff,
    "echo": draft_echo,
}
"""Function -> how its arguments are drafted together."""
