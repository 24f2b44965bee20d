"""Check that a turn's words carry what its plan says they carry, and nothing else.

The check reads the text with its own rules, not with the writer's: numbers, dates and texts are
looked for as a reader would recognise them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from fctncalling.lab.forge.plan import PlannedTurn, Value
from fctncalling.lab.forge.words.literals import parsed_date

_NUMBER = re.compile(r"(?<![\w.])-?\$?-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
_MONTHS = "January February March April May June July August September October November December"
_MONTH = "|".join(f"{name}|{name[:3]}" for name in _MONTHS.split())
_DATES = re.compile(
    rf"(?:{_MONTH}) (?:the )?\d{{1,2}}(?:st|nd|rd|th)?, \d{{4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH}),? \d{{4}}"
    r"|\d{4}[-/]\d{2}[-/]\d{2}"
)
_FIRST_CLASS = re.compile(r"\bfirst[ -]class\b")
_ALONE = re.compile(r"\bsingle\b")  # "the single last line"
_HERE = re.compile(r"\b(?:this|current|working) (?:directory|folder)\b|\b(?:in|over|right) here\b")
_OF_CURRENT_FOLDER = ("du", "find", "ls", "pwd")
_UNSAID_LENGTH = 3  # shorter values occur by chance


def faults_of(text: str, turn: PlannedTurn) -> list[str]:
    """Return what is wrong with a turn's words, one line each; empty where they are true."""
    if turn.role == "function_returns":
        return [] if text == "" else ["a turn in which a function returns has no words"]
    if turn.role == "missing_value" and turn.blank is not None:
        index, argument = turn.blank
        value = turn.requested[index].arguments[argument]
        return [] if says_value(text, value) else [f"{argument}={value.value!r} is not said"]
    return [*_unsaid(text, turn), *_said_too_much(text, turn), *_elsewhere(text, turn)]


def _unsaid(text: str, turn: PlannedTurn) -> Iterator[str]:
    for index, call in enumerate(turn.requested):
        for argument, value in call.arguments.items():
            if (index, argument) == turn.blank:
                continue
            if must_be_said(value) and not says_value(text, value):
                yield f"{call.function}: {argument}={value.value!r} is not said"


def _elsewhere(text: str, turn: PlannedTurn) -> Iterator[str]:
    """Yield what the words say of the current folder although the plan leaves it unmentioned."""
    for step, call in pairwise(turn.requested):
        if step.function == "cd" and step.purpose == "needed_step":
            if call.function in _OF_CURRENT_FOLDER:
                yield f"{call.function} is of another folder, which is not said"
            elif _HERE.search(text):
                yield "the current folder is meant, but another one has to be entered"


def _said_too_much(text: str, turn: PlannedTurn) -> Iterator[str]:
    values = list(_values(turn))
    rest = _without(text, [value for value in values if must_be_said(value)], turn)
    for value in values:
        known = value.provenance in ("said_before", "result", "state")
        if known and value.value != "first" and _names(rest, value.value):
            yield f"{value.kind} {value.value!r} is said, but comes from {value.provenance}"
    if turn.blank is not None and turn.role == "request_without_value":
        index, argument = turn.blank
        left_out = turn.requested[index].arguments[argument]
        if must_be_said(left_out) and says_value(text, left_out):
            yield f"{argument}={left_out.value!r} is said, but should be left out"


def _values(turn: PlannedTurn) -> Iterator[Value]:
    for index, call in enumerate(turn.requested):
        for argument, value in call.arguments.items():
            if (index, argument) != turn.blank or turn.role != "request_without_value":
                yield value


def must_be_said(value: Value) -> bool:
    """Tell whether the words of a turn have to carry a value."""
    return value.provenance == "said_now" or (
        value.provenance == "inferred" and value.said is not None
    )


def says_value(text: str, value: Value) -> bool:
    """Tell whether a value can be read in a text, in the form that the plan asks for."""
    said = value.value if value.provenance == "said_now" else value.said
    if value.kind == "travel_class" and said == "first":  # not "the first city"
        return _FIRST_CLASS.search(text) is not None
    return says(text, said)


def says(text: str, said: Any) -> bool:
    """Tell whether a text says a literal.

    A number as a number, a date as a date, a list item by item, anything else letter by letter.
    """
    if isinstance(said, dict):
        return all(says(text, each) for each in said.values())
    if isinstance(said, list | tuple):
        return all(says(text, each) for each in said)
    if isinstance(said, bool):
        return True
    if isinstance(said, int | float):
        return any(number == said for number in numbers(text))
    day = parsed_date(str(said))
    if day is not None and any(day == parsed_date(found) for found in dates(text)):
        return True
    word = str(said)
    return any(_contains(text, form) for form in (word, word.replace("_", " "), word.capitalize()))


def numbers(text: str) -> Iterator[float]:
    """Yield the numbers that a text writes in digits."""
    for found in _NUMBER.finditer(text):
        yield float(found[0].replace("$", "").replace(",", ""))
    if _ALONE.search(text):
        yield 1.0


def dates(text: str) -> Iterator[str]:
    """Yield the dates that a text writes, without what `parsed_date` does not read."""
    for found in _DATES.finditer(text):
        plain = re.sub(r"\b(?:the|of) |(?<=[A-Za-z]{3}),(?= \d{4})", "", found[0])
        yield re.sub(rf"\b({'|'.join(n[:3] for n in _MONTHS.split())})\b", _full_month, plain)


def _full_month(found: re.Match[str]) -> str:
    return next(name for name in _MONTHS.split() if name.startswith(found[0]))


def _contains(text: str, said: str) -> bool:
    """Tell whether a text holds a string as a whole word or words."""
    at = text.find(said)
    while at >= 0 and said:
        end = at + len(said)
        begins = at == 0 or not (_in_word(text[at - 1]) and _in_word(said[0]))
        if begins and (end == len(text) or not (_in_word(text[end]) and _in_word(said[-1]))):
            return True
        at = text.find(said, at + 1)
    return False


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _without(text: str, said: list[Value], turn: PlannedTurn) -> str:
    """Return a text without the values that it rightly says."""
    words = [value.value if value.provenance == "said_now" else value.said for value in said]
    for word in sorted((str(each) for each in _leaves(words)), key=len, reverse=True):
        text = text.replace(word, " ")
    return text


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from _leaves(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    elif str(value):
        yield value


def _names(text: str, value: Any) -> bool:
    """Tell whether a text names a value that it should only point at."""
    for each in _leaves(value):
        if isinstance(each, bool | None) or len(str(each)) < _UNSAID_LENGTH:
            continue
        if isinstance(each, int | float):
            if any(number == each for number in numbers(text)):
                return True
        elif _contains(text, each):
            return True
    return False
