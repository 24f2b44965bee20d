"""Typed pools: the names, words and sentences that worlds and requests are filled from."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path

_POOLS: dict[str, list[str]] = {
    name: entries.split(" | ")
    for name, entries in json.loads(Path(__file__).with_name("pools.json").read_text()).items()
}
FIRST_NAMES = _POOLS["first_names"]
LAST_NAMES = _POOLS["last_names"]
FOLDERS = _POOLS["folders"]
FILE_STEMS = _POOLS["file_stems"]
_ACTORS = _POOLS["actors"]
_ACTS = _POOLS["acts"]
_THINGS = _POOLS["things"]
_TIMES = _POOLS["times"]
_TROUBLES = _POOLS["troubles"]
_SUBJECTS = _POOLS["subjects"]
TOPICS = _POOLS["topics"]
_MOODS = _POOLS["moods"]
STREETS = _POOLS["streets"]
TICKERS = _POOLS["tickers"]
PLACES = _POOLS["places"]
EXTENSIONS = [
    "txt", "txt", "txt", "md", "csv", "log", "pdf", "docx", "json", "py", "html"
]  # fmt: skip


def sentence(draw: random.Random) -> str:
    """Return one of some 570,000 plain sentences."""
    return f"{_one(draw, _ACTORS)} {_one(draw, _ACTS)} {_one(draw, _THINGS)} {_one(draw, _TIMES)}."


def text(draw: random.Random, sentences: int) -> str:
    """Return so many sentences, each on a line of its own."""
    return "\n".join(sentence(draw) for _ in range(sentences))


def title(draw: random.Random) -> str:
    """Return a ticket's title."""
    return f"{_one(draw, _TROUBLES)} {_one(draw, _SUBJECTS)}"


def tweet(draw: random.Random) -> str:
    """Return what somebody posts."""
    if draw.random() < 0.5:
        return f"{_one(draw, _MOODS)} {_one(draw, TOPICS)}!"
    return f"{_one(draw, _MOODS)} {_one(draw, TOPICS)}. {sentence(draw)}"


def short_message(draw: random.Random) -> str:
    """Return what somebody writes to a colleague."""
    form = draw.randrange(4)
    thing, when = _one(draw, _THINGS), _one(draw, _TIMES)
    if form == 0:
        return f"Could you look after {thing} {when}?"
    if form == 1:
        return f"Please keep {thing} ready."
    if form == 2:
        return f"I need a word about {thing}."
    return sentence(draw)


def file_name(draw: random.Random) -> str:
    """Return the name of a file."""
    stem = _one(draw, FILE_STEMS)
    if draw.random() < 0.3:
        stem = f"{stem}_{_one(draw, FILE_STEMS)}"
    elif draw.random() < 0.2:
        stem = f"{stem}_{draw.choice((2023, 2024, 2025, 'v2', 'final'))}"
    return f"{stem}.{_one(draw, EXTENSIONS)}"


def account(draw: random.Random) -> str:
    """Return a user name as social networks have them."""
    form = draw.randrange(3)
    first, last = _one(draw, FIRST_NAMES).lower(), _one(draw, LAST_NAMES).lower()
    if form == 0:
        return f"{first}_{last}"
    if form == 1:
        return f"{_one(draw, TOPICS)}_{first}"
    return f"{first}{last[:1]}{draw.randint(2, 99)}"


def full_name(draw: random.Random) -> str:
    """Return a first and a last name."""
    return f"{_one(draw, FIRST_NAMES)} {_one(draw, LAST_NAMES)}"


def password(draw: random.Random) -> str:
    """Return a password that occurs in no other text."""
    return f"{_one(draw, STREETS)}{draw.choice('#!$@-')}{draw.randint(100, 9999)}"


def code(draw: random.Random, length: int) -> str:
    """Return small letters and digits, a letter first."""
    rest = "".join(draw.choices(string.ascii_lowercase + string.digits, k=length - 1))
    return draw.choice(string.ascii_lowercase) + rest


def address(draw: random.Random) -> str:
    """Return a street address or a well-known spot."""
    if draw.random() < 0.2:
        return _one(draw, PLACES)
    kind = draw.choice(("Street", "Avenue", "Lane", "Road"))
    return f"{draw.randint(2, 980)} {_one(draw, STREETS)} {kind}"


def _one(draw: random.Random, pool: list[str]) -> str:
    return pool[int(draw.random() * len(pool))]
