"""Arbitrary calls: do calls have anything to do with the question, where no right one is written
down (relevance)?
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


def arbitrary_call_fault(
    calls: Sequence[Call], functions: Sequence[FunctionDoc], question: str
) -> Fault | None:
    """Return why calls are arbitrary: arguments do not fit the docs, or none of a call's occurs in
    the question.

    A call without arguments is right where its function has no parameters that are required.
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
            if not _has_type(value, documented[name]):
                return _arbitrary(f"{call.name}: {name} is of type {type(value).__name__}")
        if call.arguments and not any(
            _occurs_in_question(each, question) for each in call.arguments.values()
        ):
            return _arbitrary(f"{call.name}: no argument is mentioned in the question")
    return None


def _arbitrary(message: str) -> Fault:
    return Fault("strict:arbitrary_call", message)


def _has_type(value: Any, declared: Mapping[str, Any]) -> bool:
    try:
        given, expected, _ = python_argument(value, declared)
    except ValueError:  # a documented type that is none of ours
        return True
    return isinstance(given, expected) or declared.get("type") == "any"


def _occurs_in_question(value: Any, question: str) -> bool:
    """Whether a word or number of a value stands in the question."""
    words = set(_WORD.findall(question.casefold()))
    for leaf in _leaves(value):
        if isinstance(leaf, bool) or leaf is None:
            continue
        if isinstance(leaf, int | float):
            if str(leaf).removesuffix(".0") in words:
                return True
        elif _text_occurs(str(leaf).casefold(), words, question.casefold()):
            return True
    return False


def _text_occurs(text: str, words: set[str], question: str) -> bool:
    found = set(_WORD.findall(text)) - _SAMPLE
    return any(word in words for word in found if len(word) >= _MIN_LETTERS or word.isdigit()) or (
        not text.isascii() and text in question  # scripts that set no blanks between words
    )


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]
