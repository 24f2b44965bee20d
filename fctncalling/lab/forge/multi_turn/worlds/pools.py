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
_FIXES, _AFTERWARDS = _POOLS["fixes"], _POOLS["afterwards"]
_SYMPTOMS, _CIRCUMSTANCES = _POOLS["symptoms"], _POOLS["circumstances"]
_INQUIRIES, _LUGGAGE = _POOLS["inquiries"], _POOLS["luggage"]
STREETS = _POOLS["streets"]
TICKERS = _POOLS["tickers"]
PLACES = _POOLS["places"]
EXTENSIONS = [
    "txt", "txt", "txt", "md", "csv", "log", "pdf", "docx", "json", "py", "html"
]  # fmt: skip


def sentence(draw: random.Random) -> str:
    """Return one of some 80 million plain sentences."""
    actor, act = _one(draw, _ACTORS), _one(draw, _ACTS)
    thing, when = _one(draw, _THINGS), _one(draw, _TIMES)
    if draw.random() < 0.6:
        return f"{actor} {act} {thing} {when}."
    return f"{_capital(when)}, {_small(actor)} {act} {thing}."


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _small(words: str) -> str:
    return words[:1].lower() + words[1:]


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


_MESSAGES = (
    "Could you look after {}?", "Please keep {} ready.", "I need a word about {}.",
    "Any news about {}?", "Do not forget {}!", "I finally found {}.", "Who takes care of {}?",
    "Thank you for your help with {}.", "Sorry that I was late with {}.",
    "Please send me everything you have on {}.", "Let us talk about {} tomorrow.",
    "Have you seen {} anywhere?", "My boss keeps asking for {}.", "Tell me once {} can go out.",
    "I left {} on your desk.", "Can we agree on {} today?", "I cannot find my notes on {}.",
)  # fmt: skip


def short_message(draw: random.Random) -> str:
    """Return what somebody writes to a colleague."""
    if draw.random() < 0.25:
        return sentence(draw)
    return draw.choice(_MESSAGES).format(_one(draw, _THINGS))


def complaint(draw: random.Random) -> str:
    """Return what is wrong with something, as a ticket describes it."""
    if draw.random() < 0.3:
        return sentence(draw)
    return f"{_one(draw, _SYMPTOMS)} {_one(draw, _CIRCUMSTANCES)}."


def resolution(draw: random.Random) -> str:
    """Return how the trouble behind a ticket was solved."""
    if draw.random() < 0.15:
        return sentence(draw)
    return f"{_one(draw, _FIXES)} and {_one(draw, _AFTERWARDS)}."


def inquiry(draw: random.Random) -> str:
    """Return what a traveller asks customer support."""
    return _one(draw, _INQUIRIES).format(_one(draw, _LUGGAGE))


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
