"""Matcher of a parsed regular expression in bounded steps, whatever the expression.

Python's own goes back and forth for as long as it takes. Here all places of the text that can be
reached are kept at once, as the bits of one number: nothing is tried twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

MAX_STEPS = 20_000


class TooManySteps(Exception):
    """Signal that a pattern takes more steps than anybody's identifiers need."""


def matches_whole(parsed: Any, text: str) -> bool:
    """Return whether a parsed pattern matches the whole of a text.

    parsed: of the standard library's parser. Raises LookupError for what is not known here (back
    references, conditions), TooManySteps for a pattern that takes too long.
    """
    end = 1 << len(text)
    return bool(_Match(text).reached(parsed, 1) & end)


def matches_somewhere(parsed: Any, text: str) -> bool:
    """Return whether a parsed pattern matches a part of a text; raises as `matches_whole` does."""
    return bool(_Match(text).reached(parsed, (2 << len(text)) - 1))


class _Match:
    def __init__(self, text: str) -> None:
        self._text = text
        self._steps = 0
        self._letters: dict[int, int] = {}

    def reached(self, parts: Iterable[tuple[Any, Any]], places: int) -> int:
        """Return the places behind a match of the parts that begins at one of the places."""
        for kind, value in parts:
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise TooManySteps
            if not places:
                return 0
            places = self._behind(str(kind), value, places)
        return places

    def _behind(self, kind: str, value: Any, places: int) -> int:
        if kind in _LETTERS:
            return (places & self._matching(kind, value)) << 1
        if kind == "BRANCH":
            behind = 0
            for each in value[1]:
                behind |= self.reached(each, places)
            return behind
        if kind == "SUBPATTERN":
            return self.reached(value[-1], places)
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = value
            return self._repeated(least, most, inner, places)
        if kind in ("ASSERT", "ASSERT_NOT"):
            direction, inner = value
            holds = self._looked(direction, inner, places)
            return places & (holds if kind == "ASSERT" else ~holds)
        return places & self._anchored(str(value) if kind == "AT" else kind)

    def _repeated(self, least: int, most: int, inner: Any, places: int) -> int:
        # More repeats than there are letters lead nowhere new.
        for _ in range(min(least, len(self._text) + 1)):
            places = self.reached(inner, places)
        found, new = places, places
        for _ in range(min(most, least + len(self._text) + 1) - least):
            new = self.reached(inner, new) & ~found
            if not new:
                break
            found |= new
        return found

    def _looked(self, direction: int, inner: Any, places: int) -> int:
        """Return those of the places at which what is looked for stands."""
        every = [1 << at for at in range(len(self._text) + 1)]
        if direction > 0:
            return sum(at for at in every if at & places and self.reached(inner, at))
        behind = 0
        for at in every:
            behind |= self.reached(inner, at)
        return behind

    def _matching(self, kind: str, value: Any) -> int:
        """Return the places whose letter a part matches."""
        key = id(value) if isinstance(value, list) else hash((kind, value))
        if key not in self._letters:
            fits = _LETTERS[kind]
            self._letters[key] = sum(
                1 << at for at, letter in enumerate(self._text) if fits(value, letter)
            )
        return self._letters[key]

    def _anchored(self, name: str) -> int:
        size = len(self._text)
        if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
            return 1
        if name in ("AT_END", "AT_END_STRING"):
            return 1 << size
        words = [_is_word(letter) for letter in self._text]
        edges = zip([False, *words], [*words, False], strict=True)
        bounds = sum(1 << at for at, (one, other) in enumerate(edges) if one != other)
        return {"AT_BOUNDARY": bounds, "AT_NON_BOUNDARY": ~bounds}[name]


def _is_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_NOT_DIGIT": lambda letter: not letter.isdecimal(),
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_NOT_SPACE": lambda letter: not letter.isspace(),
    "CATEGORY_WORD": _is_word,
    "CATEGORY_NOT_WORD": lambda letter: not _is_word(letter),
}


def _is_one_of(value: Any, letter: str) -> bool:
    negated = str(value[0][0]) == "NEGATE"
    return negated != any(_LETTERS[str(kind)](each, letter) for kind, each in value[negated:])


_LETTERS: dict[str, Callable[[Any, str], bool]] = {
    "LITERAL": lambda value, letter: ord(letter) == value,
    "NOT_LITERAL": lambda value, letter: ord(letter) != value,
    "RANGE": lambda value, letter: value[0] <= ord(letter) <= value[1],
    "CATEGORY": lambda value, letter: _CATEGORIES[str(value)](letter),
    "ANY": lambda value, letter: letter != "\n",
    "IN": _is_one_of,
}
