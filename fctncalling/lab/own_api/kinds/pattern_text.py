"""Texts of a regular expression or of an example's shape."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterable
from typing import Any

PARSER: Any = getattr(re, "_parser", None)
LONGEST_REPEAT = 6  # further than the least, where a pattern sets no end
_READABLE = string.ascii_letters + string.digits
_CATEGORIES = {
    "CATEGORY_DIGIT": string.digits,
    "CATEGORY_WORD": _READABLE,
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": string.ascii_uppercase,
    "CATEGORY_NOT_WORD": "-",
    "CATEGORY_NOT_SPACE": _READABLE,
}


def text_of_pattern(pattern: str, rng: random.Random) -> str | None:
    """Return a text that the whole of which the pattern matches; None where none was found."""
    if PARSER is None or not is_python_regex(pattern):
        return None
    for _ in range(5):
        try:
            text = _of_parts(PARSER.parse(pattern), rng)
        except (LookupError, NotImplementedError, re.error, OverflowError, RecursionError):
            return None
        if text and len(text) <= 200 and re.fullmatch(pattern, text):
            return text
    return None


def is_python_regex(pattern: str) -> bool:
    """Return whether Python can read a pattern: JSON Schema's are JavaScript's."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return len(pattern) <= 500


def text_of_shape(example: str, rng: random.Random) -> str:
    """Return a text shaped like an example: other digits, other letters where digits are near.

    Letters at the front stay: they say what is numbered ("B-104", "HN48213377").
    """
    front, rest = _front_and_rest(example)
    return front + "".join(_like(each, rng) for each in rest)


def _front_and_rest(example: str) -> tuple[str, str]:
    letters = re.match(r"[^\W\d_]*", example)
    kept = letters.end() if letters and re.search(r"\d", example) else 0
    return example[:kept], example[kept:]


def shape_pattern(example: str) -> str:
    """Return the pattern of texts shaped like an example, as `text_of_shape` makes them."""
    front, rest = _front_and_rest(example)
    return re.escape(front) + "".join(map(_letter_pattern, rest))


def _letter_pattern(letter: str) -> str:
    if letter.isdigit():
        return r"\d"
    if letter.isupper():
        return "[A-Z]"
    return "[a-z]" if letter.islower() else re.escape(letter)


def _like(letter: str, rng: random.Random) -> str:
    if letter.isdigit():
        return rng.choice(string.digits)
    if letter in string.ascii_uppercase:
        return rng.choice(string.ascii_uppercase)
    return rng.choice(string.ascii_lowercase) if letter in string.ascii_lowercase else letter


def _of_parts(parts: Iterable[tuple[Any, Any]], rng: random.Random) -> str:
    return "".join(_WRITERS[str(kind)](value, rng) for kind, value in parts)


def _repeat(value: Any, rng: random.Random) -> str:
    least, most, inner = value
    times = rng.randint(least, min(most, max(least, 1) + LONGEST_REPEAT, max(least, 40)))
    return "".join(_of_parts(inner, rng) for _ in range(times))


def _one_of(value: Any, rng: random.Random) -> str:
    letters = ""
    for kind, inner in value:
        name = str(kind)
        if name == "NEGATE":
            excluded = {chr(each) for kind, each in value if str(kind) == "LITERAL"}
            return rng.choice([each for each in _READABLE if each not in excluded])
        if name == "RANGE":
            letters += "".join(chr(each) for each in range(inner[0], min(inner[1], 0x24F) + 1))
        else:
            letters += chr(inner) if name == "LITERAL" else _CATEGORIES[str(inner)]
    return rng.choice(letters)


_WRITERS: dict[str, Callable[[Any, random.Random], str]] = {
    "LITERAL": lambda value, rng: chr(value),
    "NOT_LITERAL": lambda value, rng: rng.choice([e for e in _READABLE if ord(e) != value]),
    "ANY": lambda value, rng: rng.choice(_READABLE),
    "AT": lambda value, rng: "",
    "IN": _one_of,
    "CATEGORY": lambda value, rng: rng.choice(_CATEGORIES[str(value)]),
    "BRANCH": lambda value, rng: _of_parts(rng.choice(value[1]), rng),
    "SUBPATTERN": lambda value, rng: _of_parts(value[-1], rng),
    "MAX_REPEAT": _repeat,
    "MIN_REPEAT": _repeat,
    "ASSERT": lambda value, rng: "",
    "ASSERT_NOT": lambda value, rng: "",
}
