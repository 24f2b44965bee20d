"""Arbitrary calls.

Do calls have anything to do with the question, where no right one is written down (relevance)?
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fctncalling.checkers.python_values import Fault, python_argument
from fctncalling.data.types import Call, FunctionDoc

_WORD = re.compile(r"\w+")
_MIN_LETTERS = 3  # of a word taken as mentioned: shorter ones occur in any text
_SAMPLE = frozenset({"value", "string", "text", "true", "false", "none", "the", "and", "for"})
_ENOUGH = 2  # mentions; one common word of the question is in reach of anybody
_FORMAT = re.compile(r"\b(?:YYYY|DD|HH:MM)\b")  # of a date or time, in a description


def arbitrary_call_fault(
    calls: Sequence[Call], functions: Sequence[FunctionDoc], question: str
) -> Fault | None:
    """Return why calls are arbitrary.

    Arguments do not fit the docs (type, enum, a date without digits), one text serves for two of
    them, or they mention too little of the question.

    A number, a name or two words of the question are enough. A call without arguments is right
    where its function has no parameters that are required.
    """
    docs = {doc.name.replace(".", "_"): doc for doc in functions}
    for call in calls:
        doc = docs.get(call.name.replace(".", "_"))
        if doc is None:
            return _arbitrary(f"{call.name} is not offered")
        documented = doc.parameters.get("properties", {})
        missing = [
            name for name in doc.parameters.get("required", ()) if name not in call.arguments
        ]
        unknown = [name for name in call.arguments if name not in documented]
        if missing or unknown:
            return _arbitrary(f"{call.name}: missing {missing}, unknown {unknown}"[:300])
        for name, value in call.arguments.items():
            if misfit := _misfit(value, documented[name]):
                return _arbitrary(f"{call.name}: {name} is {misfit}")
        texts = [each for each in call.arguments.values() if isinstance(each, str) and each]
        if len(set(texts)) < len(texts):
            return _arbitrary(f"{call.name}: one text for two parameters")
        if call.arguments and _mentions(call, question, docs) < _ENOUGH:
            return _arbitrary(f"{call.name}: its arguments say too little of the question")
    return None


def _arbitrary(message: str) -> Fault:
    return Fault("strict:arbitrary_call", message)


def _misfit(value: Any, declared: Mapping[str, Any]) -> str | None:
    """Return why a value is none of its parameter; None where it may be one."""
    try:
        given, expected, _ = python_argument(value, declared)
    except ValueError:  # a documented type that is none of ours
        given, expected = value, object
    if not isinstance(given, expected) and declared.get("type") != "any":
        return f"of type {type(value).__name__}"
    listed = declared.get("enum")
    if isinstance(listed, list) and listed and value not in listed and value != "":
        return f"none of {listed}"[:200]
    dated = isinstance(value, str) and _FORMAT.search(str(declared.get("description", "")))
    return "no date or time" if dated and value and not any(map(str.isdigit, value)) else None


def _mentions(call: Call, question: str, functions: Iterable[str]) -> int:
    """Return how much of the question the arguments of a call say, up to `_ENOUGH`.

    A number, or a word with a capital in mid-sentence, counts two; any other word one, and a true
    flag that the question names.
    """
    for name in functions:  # what the question says of functions is no value
        question = re.sub(rf"\b{re.escape(name)}\b", " ", question)
    words = set(_WORD.findall(question.casefold())) - _SAMPLE
    names = {name.casefold() for name in re.findall(r"(?<=[a-z,] )[A-Z]\w+", question)}
    told = set[str]()
    count = 0
    for parameter, value in call.arguments.items():
        for leaf in _leaves(value):
            if leaf is True:
                told |= {*_WORD.findall(parameter.replace("_", " ").casefold())} & words
            elif isinstance(leaf, bool) or leaf is None:
                continue
            elif isinstance(leaf, int | float):
                count += _ENOUGH * (str(leaf).removesuffix(".0") in words)
            else:
                told |= {*_WORD.findall(str(leaf).casefold())} & words
                # scripts that set no blanks between words
                count += _ENOUGH * (not str(leaf).isascii() and str(leaf) in question)
    told = {word for word in told if len(word) >= _MIN_LETTERS or word.isdigit()}
    return count + sum(_ENOUGH if word in names or word.isdigit() else 1 for word in told)


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]
