"""Texts of a regular expression or of an example's shape."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

REGEX: Any = None
with suppress(ImportError):
    REGEX = import_module("regex")
PARSER: Any = getattr(re, "_parser", None)
LONGEST_REPEAT = 6  # further than the least, where a pattern sets no end
LONGEST_TEXT = 200
LONGEST_PATTERN = 500
MAX_STEPS = 5_000  # of writing one text
MATCHING_S = 0.05  # CPU seconds that a match may take


class TooManySteps(Exception):
    """Signal that a pattern takes more steps than anybody's identifiers need."""


_UNKNOWN = (LookupError, NotImplementedError, re.error, OverflowError, RecursionError, TooManySteps)
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
    """Return a text that a pattern matches as a whole; None if none is found."""
    parsed = _parsed(pattern)
    if parsed is None:
        return None
    for _ in range(5):
        try:
            text = _of_parts(parsed, _Draws(rng))
        except _UNKNOWN:
            return None
        if text and matches_pattern(pattern, text):
            return text
    return None


def is_python_regex(pattern: str) -> bool:
    """Return whether Python can read a pattern: JSON Schema's are JavaScript's."""
    return _parsed(pattern) is not None


def matches_pattern(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a whole text; False if that takes too long."""
    return _matches(pattern, text, "fullmatch")


def has_pattern(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a part of a text, as JSON Schema means patterns."""
    return _matches(pattern, text, "search")


def _matches(pattern: str, text: str, how: str) -> bool:
    if len(text) > LONGEST_TEXT or not is_python_regex(pattern):
        return False
    if REGEX is None:  # without the extra `api` patterns are those of our own tables
        return getattr(re, how)(pattern, text) is not None
    try:
        return getattr(REGEX.compile(pattern), how)(text, timeout=MATCHING_S) is not None
    except (TimeoutError, REGEX.error, *_UNKNOWN):
        return False


@lru_cache(maxsize=4096)
def _parsed(pattern: str) -> Any | None:
    if PARSER is None or len(pattern) > LONGEST_PATTERN:
        return None
    try:
        parsed = PARSER.parse(pattern)
        return parsed if _length(parsed) <= MAX_STEPS else None
    except _UNKNOWN:
        return None


def _length(parts: Iterable[tuple[Any, Any]]) -> int:
    """Return how many parts a pattern has with its repeats written out."""
    length = 0
    for kind, value in parts:
        if str(kind) in ("MAX_REPEAT", "MIN_REPEAT"):
            length += max(1, value[0]) * _length(value[2])
        elif str(kind) == "BRANCH":
            length += sum(map(_length, value[1]))
        else:
            inner = value[-1] if isinstance(value, tuple) else ()
            length += max(1, _length(inner) if isinstance(inner, PARSER.SubPattern) else 1)
    return length


@dataclass
class _Draws:
    """Random draws of one text, so many and no more."""

    rng: random.Random
    steps: int = 0
    letters: int = 0

    def spend(self, text: str = "") -> str:
        """Return a piece of text; TooManySteps if there are too many, or too long ones."""
        self.steps += 1
        self.letters += len(text)
        if self.steps > MAX_STEPS or self.letters > LONGEST_TEXT:
            raise TooManySteps
        return text


def text_of_shape(example: str, rng: random.Random) -> str:
    """Return a text shaped like an example: other digits, other letters near digits.

    Letters at the front and words stay: they say what is numbered ("B-104", "order_48213377").
    """
    shape = zip(example, _alphabets(example), strict=True)
    return "".join(rng.choice(letters) if letters else own for own, letters in shape)


def shape_pattern(example: str) -> str:
    """Return the pattern of texts shaped like an example, as `text_of_shape` makes them."""
    shape = zip(example, _alphabets(example), strict=True)
    return "".join(_CLASSES[letters] if letters else re.escape(own) for own, letters in shape)


_CLASSES = {
    string.digits: r"\d",
    string.ascii_uppercase: "[A-Z]",
    string.ascii_lowercase: "[a-z]",
    "0123456789abcdef": "[0-9a-f]",
}
_HEX = "0123456789abcdef"


@lru_cache(maxsize=4096)
def _alphabets(example: str) -> tuple[str, ...]:
    """Return for each letter of an example the alphabet of its place; "" for a fixed letter."""
    found: list[str] = []
    has_digits = re.search(r"\d", example) is not None
    for run in re.findall(r"[A-Za-z0-9]+|[^A-Za-z0-9]+", example):
        if re.fullmatch(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{8,}", run):
            found += [_HEX] * len(run)
            continue
        kept = len(run) if _is_word(run) else 0
        if has_digits and not found:
            kept = max(kept, len(run) - len(run.lstrip(string.ascii_letters)))
        found += [""] * kept + [_alphabet(letter) for letter in run[kept:]]
    return tuple(found)


def _is_word(run: str) -> bool:
    """Return whether letters are a word: at least three of one case, with a vowel."""
    return re.fullmatch(r"(?=.*[aeiouyAEIOUY])(?:[A-Z]?[a-z]{2,}|[A-Z]{3,})", run) is not None


def is_in_words(example: str) -> bool:
    """Return whether an example is words, of which no other is made: "gpt_4o_mini", "SALES"."""
    letters = [run for run in re.findall(r"[A-Za-z0-9]+", example) if _is_word(run)]
    most = len("".join(letters)) > 0.55 * len(re.findall(r"[A-Za-z0-9]", example))
    if re.fullmatch(r"[A-Za-z]{2,4}\W?", example):
        return True  # a unit, a code of letters
    return not any(_alphabets(example)) or (most and not re.search(r"(?:^|\W|_)\d+$", example))


def _alphabet(letter: str) -> str:
    every = (string.digits, string.ascii_uppercase, string.ascii_lowercase)
    return next((letters for letters in every if letter in letters), "")


def _of_parts(parts: Iterable[tuple[Any, Any]], draws: _Draws) -> str:
    return "".join(_of_part(str(kind), value, draws) for kind, value in parts)


def _of_part(kind: str, value: Any, draws: _Draws) -> str:
    if kind in _LETTERS:
        return draws.spend(_LETTERS[kind](value, draws.rng))
    draws.spend()
    return _GROUPS[kind](value, draws)


def _repeat(value: Any, draws: _Draws) -> str:
    least, most, inner = value
    times = draws.rng.randint(least, min(most, max(least, 1) + LONGEST_REPEAT, max(least, 40)))
    return "".join(_of_parts(inner, draws) for _ in range(times))


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


_LETTERS: dict[str, Callable[[Any, random.Random], str]] = {
    "LITERAL": lambda value, rng: chr(value),
    "NOT_LITERAL": lambda value, rng: rng.choice([e for e in _READABLE if ord(e) != value]),
    "ANY": lambda value, rng: rng.choice(_READABLE),
    "IN": _one_of,
    "CATEGORY": lambda value, rng: rng.choice(_CATEGORIES[str(value)]),
}
_GROUPS: dict[str, Callable[[Any, _Draws], str]] = {
    "AT": lambda value, draws: "",
    "BRANCH": lambda value, draws: _of_parts(draws.rng.choice(value[1]), draws),
    "SUBPATTERN": lambda value, draws: _of_parts(value[-1], draws),
    "MAX_REPEAT": _repeat,
    "MIN_REPEAT": _repeat,
    "ASSERT": lambda value, draws: "",
    "ASSERT_NOT": lambda value, draws: "",
}
