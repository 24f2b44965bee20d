"""Withheld values: whether a prompt says elsewhere what a request leaves open."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from typing import Any

from fctncalling.checkers.clarify import split_words
from fctncalling.lab.forge.single_turn.made_functions import MadeParameter
from fctncalling.lab.forge.single_turn.value_kinds import (
    NUMBER_WORDS,
    DrawnValue,
    ValueKind,
    enum_words,
    word_list,
)

FEWEST_VALUES = 3  # that a value nobody said may have
TOLD = "says elsewhere the value that it leaves open"
UNEVEN = "speaks more of one candidate than of the other"


def guess_chance(kind: ValueKind) -> float:
    """Return the chance of a guess at a value of a kind by one who knows how it is drawn.

    It is 0 for decimals, dates, times, codes and addresses, which are drawn from hundreds.
    """
    if kind.name == "enum":
        return 1 / len(enum_words(kind))
    if kind.name == "string":
        return 1 / len(word_list(kind.words))
    if kind.name in ("int", "whole"):
        low, high, *step = (int(arg) for arg in kind.args)
        return 1 / len(range(low, high + 1, *step))
    return 0.0


def withheld_fault(
    question: str, docs: Sequence[dict[str, Any]], parameter: MadeParameter, value: DrawnValue
) -> str | None:
    """Return why a value that nobody said can be read from the prompt; None where it cannot.

    The values that the doc of the parameter offers do not count, as long as there are
    `FEWEST_VALUES` of them.
    """
    if guess_chance(parameter.kind) > 1 / FEWEST_VALUES:
        return f"{parameter.name} has fewer than {FEWEST_VALUES} values"
    if _is_told(value, f"{question} {_text_of(docs, parameter)}"):
        return TOLD
    return None


def revealed_candidate_fault(
    question: str,
    docs: Sequence[dict[str, Any]],
    parameter: MadeParameter,
    candidates: tuple[DrawnValue, DrawnValue],
) -> str | None:
    """Return why one of two candidates can be told from the other; None where none can.

    The question has to say both as often, and no doc either.
    """
    told = [_count(each.text, question) for each in candidates]
    if told[0] != told[1] or not told[0]:
        return UNEVEN
    documented = _text_of(docs, parameter)
    return UNEVEN if any(_is_told(each, documented) for each in candidates) else None


def _is_told(value: DrawnValue, text: str) -> bool:
    """Whether a text has the words of a value, in any of its forms."""
    words = f" {' '.join(split_words(text))} "
    return any(f" {' '.join(split_words(form))} " in words for form in _forms(value))


def _forms(value: DrawnValue) -> Iterable[str]:
    yield value.text
    for each in value.accepted:
        yield str(each)
        if isinstance(each, int | float):
            yield f"{each:g}"
            if 1 <= each <= len(NUMBER_WORDS) and each == int(each):
                yield NUMBER_WORDS[int(each) - 1]


def _count(text: str, question: str) -> int:
    wanted, words = split_words(text), split_words(question)
    return sum(words[start:][: len(wanted)] == wanted for start in range(len(words)))


def _text_of(docs: Sequence[dict[str, Any]], parameter: MadeParameter) -> str:
    """Return the text of function docs, without the values that the parameter's own doc offers."""
    kept = copy.deepcopy(list(docs))
    if parameter.kind.name == "enum":
        listed = ", ".join(repr(word) for word in enum_words(parameter.kind))
        for doc in kept:
            documented = doc["parameters"]["properties"].get(parameter.name, {})
            documented.pop("enum", None)
            if documented:
                documented["description"] = documented["description"].replace(listed, "")
    return json.dumps(kept, ensure_ascii=False)
