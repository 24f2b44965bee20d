"""Arguments that belong together: files."""

from __future__ import annotations

from dataclasses import replace

from fctncalling.lab.forge.multi_turn.arguments.desk_couplings import draft_text_value
from fctncalling.lab.forge.multi_turn.arguments.drafter import (
    Arguments,
    Draft,
    Drafter,
    inferred_value,
    verb_implied_value,
    verbatim_value,
)
from fctncalling.lab.forge.multi_turn.worlds import inventory
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


def draft_ls(drafter: Drafter) -> Arguments:
    hidden = drafter.draw.random() < 0.4
    return {"a": verb_implied_value("switch", True)} if hidden else {}


def draft_du(drafter: Drafter) -> Arguments:
    return (
        {"human_readable": verb_implied_value("switch", True)}
        if drafter.draw.random() < 0.7
        else {}
    )


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


DRAFTS: dict[str, Draft] = {
    "grep": draft_grep,
    "tail": draft_tail,
    "wc": draft_wc,
    "find": draft_find,
    "ls": draft_ls,
    "du": draft_du,
    "mv": draft_move_or_copy,
    "cp": draft_move_or_copy,
    "diff": draft_diff,
    "echo": draft_echo,
}
"""Function -> how its arguments are drafted together."""
