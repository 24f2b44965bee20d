"""Check that a turn's words carry the values that its plan says they carry, and no others.

The check reads the text with its own rules, not with the writer's: numbers, dates and texts are
looked for as a reader would recognise them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from fctncalling.lab.forge.forged_entry import atoms
from fctncalling.lab.forge.multi_turn.dials import OF_CURRENT_FOLDER
from fctncalling.lab.forge.plan import PlannedTurn, Value
from fctncalling.lab.own_api.english import days_in_text, read_day

_NUMBER = re.compile(r"(?<![\w.])-?\$?-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
_FIRST_CLASS = re.compile(r"\bfirst[ -]class\b")
_ALONE = re.compile(r"\bsingle\b")  # "the single last line"
_HERE = re.compile(r"\b(?:this|current|working) (?:directory|folder)\b|\b(?:in|over|right) here\b")
_UNSAID_LENGTH = 3  # shorter values occur by chance


def faults_of(text: str, turn: PlannedTurn, *, is_second: bool = False) -> list[str]:
    """Return the faults of a turn's words, one line each; empty if they are true.

    is_second: they are the second message, which says the value that the first one left out.
    """
    if is_second and turn.held_back:
        return [] if text == "" else ["a message in which a function returns has no words"]
    blank = turn.calls[turn.blank[0]].arguments[turn.blank[1]] if turn.blank else None
    if is_second and blank is not None:
        return [] if says_value(text, blank) else [f"{blank.kind} {blank.value!r} is not said"]
    values = [v for call in turn.calls for v in call.arguments.values() if v is not blank]
    faults = [
        f"{value.kind} {value.value!r} is not said"
        for value in values
        if value.words is not None and not says_value(text, value)
    ]
    if blank is not None and blank.words is not None and says_value(text, blank):
        faults.append(f"{blank.kind} {blank.value!r} is said, but should be left out")
    return [*faults, *_said_too_much(text, values), *_elsewhere(text, turn)]


def _said_too_much(text: str, values: Sequence[Value]) -> Iterator[str]:
    """Yield the values that words should only point at."""
    said = [value.words for value in values if value.words is not None]
    for word in sorted(map(str, atoms(said)), key=len, reverse=True):
        text = text.replace(word, " ") if word else text
    for value in values:
        known = value.provenance in ("said_before", "result", "state")
        if known and value.value != "first" and _names(text, value.value):
            yield f"{value.kind} {value.value!r} is said, but comes from {value.provenance}"


def _elsewhere(text: str, turn: PlannedTurn) -> Iterator[str]:
    """Yield mentions of the current folder that the plan leaves unmentioned."""
    for step, call in pairwise(turn.calls):
        if step.function == "cd" and step.purpose == "needed_step":
            if call.function in OF_CURRENT_FOLDER:
                yield f"{call.function} is of another folder, which is not said"
            elif _HERE.search(text):
                yield "the current folder is meant, but another one has to be entered"


def says_value(text: str, value: Value) -> bool:
    """Tell whether a value can be read in a text, in the form that the plan asks for."""
    if value.kind == "travel_class" and value.words == "first":  # not "the first city"
        return _FIRST_CLASS.search(text) is not None
    return text_mentions(text, value.words)


def text_mentions(text: str, said: Any) -> bool:
    """Tell whether a text says a literal.

    A number as a number, a date as a date, a list item by item, anything else letter by letter.
    """
    if isinstance(said, dict):
        return all(text_mentions(text, each) for each in said.values())
    if isinstance(said, list | tuple):
        return all(text_mentions(text, each) for each in said)
    if isinstance(said, bool):
        return True
    if isinstance(said, int | float):
        return any(number == said for number in numbers_in_text(text))
    day = read_day(str(said))
    if day is not None and day in days_in_text(text):
        return True
    word = str(said)
    return any(
        holds_words(text, form) for form in (word, word.replace("_", " "), word.capitalize())
    )


def numbers_in_text(text: str) -> Iterator[float]:
    """Yield the numbers that a text writes in digits."""
    for found in _NUMBER.finditer(text):
        yield float(found[0].replace("$", "").replace(",", ""))
    if _ALONE.search(text):
        yield 1.0


def holds_words(text: str, said: str) -> bool:
    """Tell whether a text holds a string as a whole word or words."""
    begin, end = (
        r"(?<!\w)" * bool(re.match(r"\w", said)),
        r"(?!\w)" * bool(re.search(r"\w$", said)),
    )
    return said != "" and said in text and bool(re.search(f"{begin}{re.escape(said)}{end}", text))


def _names(text: str, value: Any) -> bool:
    """Tell whether a text names a value that it should only point at."""
    for each in atoms(value):
        if isinstance(each, bool | None) or len(str(each)) < _UNSAID_LENGTH:
            continue
        if isinstance(each, int | float):
            if any(number == each for number in numbers_in_text(text)):
                return True
        elif holds_words(text, each):
            return True
    return False
