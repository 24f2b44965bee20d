"""Drafts of arguments: files, messages, posts and tickets."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from fctncalling.lab.forge.multi_turn import inventory
from fctncalling.lab.forge.multi_turn.drafter import (
    Arguments,
    Drafter,
    inferred_value,
    own_text,
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
    counted = inferred_value("count_mode", mode, "count_mode", modes[mode], "counted")
    return {"file_name": name, "mode": counted}


def name_part(drafter: Drafter) -> Value:
    names = [*inventory.files(drafter.state), *inventory.folders(drafter.state)]
    below = [n for each in inventory.folders(drafter.state).values() for n in each.contents]
    if not names + below:
        raise LookupError("name_part")
    part = drafter.draw.choice(names + below).split(".")[0].split("_")[0]
    return verbatim_value("name_part", part or ".")


def draft_move_or_copy(drafter: Drafter) -> Arguments:
    """Move or copy a file into a directory, or under a new name."""
    source = replace(drafter.value("file_name"), kind="entry_name")
    places = inventory.folders(drafter.state)
    if places and drafter.draw.random() < 0.7:
        destination = replace(drafter.value("folder"), kind="destination")
        return {"source": source, "destination": destination}
    stem, dot, ending = str(source.value).rpartition(".")
    new = drafter.draw.choice(inventory.FILE_STEMS)
    new_name = f"{new}.{ending}" if stem and dot else new
    if new_name in {*inventory.files(drafter.state), *places}:
        raise LookupError("destination")
    return {"source": source, "destination": verbatim_value("destination", new_name)}


def draft_diff(drafter: Drafter) -> Arguments:
    first = drafter.value("file_name")
    return {"file_name1": first, "file_name2": drafter.value("file_name", (first.value,))}


def draft_echo(drafter: Drafter) -> Arguments:
    here = inventory.files(drafter.state)
    full = [name for name, item in here.items() if item.content]
    name = drafter.value("file_name", () if len(full) == len(here) else full)
    content = own_text(drafter, inventory.draw_sentence)
    if content.value == here[name.value].content:
        raise LookupError("text")  # it says so already
    return {"content": content, "file_name": name}


def receiver(drafter: Drafter) -> Value:
    known, me = drafter.known("user_id"), drafter.state["MessageAPI"]["current_user"]
    if known is not None and known.value != me and drafter.draw.random() < 0.75:
        return known
    users = drafter.state["MessageAPI"]["user_map"].values()
    return verbatim_value("user_id", drafter.draw.choice([user for user in users if user != me]))


def written_to(drafter: Drafter) -> Value:
    """Return somebody whom a message was sent to."""
    receivers = [next(iter(each)) for each in drafter.state["MessageAPI"]["inbox"]]
    known = drafter.known("user_id")
    if known is not None and known.value in receivers:
        return known
    return verbatim_value("user_id", drafter.draw.choice(receivers or [""]))


def hashtags(drafter: Drafter) -> Value:
    topics = drafter.draw.sample(inventory.TOPICS, drafter.draw.choice((1, 1, 2)))
    tags = [f"#{topic}" for topic in topics]
    if drafter.draw.random() < 0.2 * drafter.dials.inferred:
        return inferred_value("hashtag", tags, "hashtag", topics, "topic")
    return verbatim_value("hashtag", tags)


def _accounts(draw: Random) -> list[str]:
    return [inventory.draw_account(draw) for _ in range(draw.choice((1, 1, 2)))]


def mentions(drafter: Drafter) -> Value:
    names = _accounts(drafter.draw)
    said_as = [f"@{name}" for name in names]
    if drafter.draw.random() < 0.5:
        return verbatim_value("mention", said_as)
    return inferred_value("mention", said_as, "mention", names, "account")


def draft_mention(drafter: Drafter) -> Arguments:
    names = verbatim_value("account", _accounts(drafter.draw))
    return {"tweet_id": drafter.value("tweet_id"), "mentioned_usernames": names}


def draft_comment(drafter: Drafter) -> Arguments:
    opening = drafter.draw.choice(("Great news", "Well done", "Good to know"))
    comment = verbatim_value("text", f"{opening}! {inventory.draw_sentence(drafter.draw)}")
    return {"tweet_id": drafter.value("tweet_id"), "comment_content": comment}


def priority(drafter: Drafter) -> Value:
    number = drafter.draw.randint(1, 5)
    if number == 5 and drafter.draw.random() < 0.6:
        return inferred_value("priority", 5, "highest_priority", "highest", "priority_word")
    return verbatim_value("priority", number)


def draft_resolve_ticket(drafter: Drafter) -> Arguments:
    known = drafter.known("text")
    same = known if known and drafter.draw.random() < 0.35 else None
    ticket = drafter.value("ticket_id")
    resolution = same or verbatim_value("text", inventory.draw_resolution(drafter.draw))
    return {"ticket_id": ticket, "resolution": resolution}


def draft_edit_ticket(drafter: Drafter) -> Arguments:
    draw = drafter.draw
    name = draw.choice(("priority", "priority", "status", "title"))
    values: dict[str, Any] = {
        "priority": draw.randint(1, 5),
        "status": draw.choice(("In Progress", "Pending", "On Hold")),
        "title": inventory.draw_title(draw),
    }
    updates = verbatim_value("ticket_updates", {name: values[name]})
    return {"ticket_id": drafter.value("ticket_id"), "updates": updates}


def twitter_account(drafter: Drafter) -> Value:
    if drafter.draw.random() < 0.5:
        return verbatim_value("account", drafter.state["TwitterAPI"]["username"])
    return drafter.value("account")


def followed(drafter: Drafter) -> Value:
    following = drafter.state["TwitterAPI"]["following_list"]
    return verbatim_value("account", drafter.draw.choice(following or [""]))


def first_user(drafter: Drafter) -> Value:
    return verbatim_value("user_id", next(iter(drafter.state["MessageAPI"]["user_map"].values())))


def message_word(drafter: Drafter) -> Value:
    inbox = drafter.state["MessageAPI"]["inbox"]
    return _keyword(drafter, [text for each in inbox for text in each.values()])


def tweet_word(drafter: Drafter) -> Value:
    tweets = drafter.state["TwitterAPI"]["tweets"]
    return _keyword(drafter, [tweet["content"] for tweet in tweets.values()])


def _keyword(drafter: Drafter, texts: list[str]) -> Value:
    words = [word.strip(".!?,") for text in texts for word in text.split() if len(word) > 5]
    if not words:
        raise LookupError("keyword")
    return verbatim_value("keyword", drafter.draw.choice(words))
