"""Clauses of a user's phrases file: how each value is said behind a phrase."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from fctncalling.lab.own_api.english import enumerated, singular
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.clauses import verbatim_value, with_optional_quotes
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.spoken_values import join_with_and, spoken_value
from fctncalling.lab.own_api.words.vocabulary import word_table

OTHER_UNIT_SHARE = 0.5  # of numbers that another unit says in a word or two
_UNIT = re.compile(r"\{\} ([A-Za-z]+)(?! (?:per|of|a|an|old)\b)(?![\w/^])")
_SHORT_UNIT = re.compile(r"\{\} (?:[^aeiou\s]{1,4}|[A-Z])\b")  # "nine A" is no current
_COUNTING = ("last ", "past ", "next ", "coming ")  # the last hour, not the last an hour
_ONE = re.compile(
    r"(?<![\w.,-])(1|one) (people|calories|inches|successes|[a-z]{2,}(?<!s)s)(?![\w])(?! (?:of|is))"
)


@dataclass(frozen=True)
class WordedValue:
    """Value in the words that a request has to say it in."""

    text: str


def own_clauses(
    words: FunctionWords, names: Sequence[str], arguments: Mapping[str, Any], rng: Random
) -> str:
    """Return the clauses of arguments, joined as people write them, with a blank before each.

    What hangs behind a comma comes last, and "with" is said once for several.
    """
    texts = [own_clause(words, name, arguments[name], rng) for name in names]
    texts.sort(key=lambda text: text.startswith(","))
    said = ""
    for index, text in enumerate(texts):
        if text.startswith(","):
            said += text
        elif index and text.startswith("with ") and texts[index - 1].startswith("with "):
            goes_on = index + 1 < len(texts) and texts[index + 1].startswith("with ")
            said += f"{',' if goes_on else ' and'} {text.removeprefix('with ')}"
        else:  # never two numbers in a row
            said += f"{',' if said[-1:].isdigit() and text[:1].isdigit() else ''} {text}"
    return said


def own_clause(
    words: FunctionWords, name: str, value: Any, rng: Random, form: str | None = None
) -> str:
    """Word a value by one of its clauses or `form`, else by the default words."""
    said = _said_in_clause(words, name, words.kinds[name], value, rng, form)
    return verbatim_value(words, name, value, rng).text if said is None else said


def _said_in_clause(
    words: FunctionWords, place: str, kind: ArgumentKind, value: Any, rng: Random, form: str | None
) -> str | None:
    """Return the clause of a parameter, or of an object's key ("PARAMETER.KEY"), if it has one."""
    forms = [form] if form else (words.clauses or {}).get(place, ())
    told = str(value).lower() if isinstance(value, bool) else str(value)
    literal = [text.removeprefix(f"{told} = ") for text in forms if text.startswith(f"{told} = ")]
    choices = [*literal, *(text for text in forms if "{}" in text)]
    if not choices:
        return None
    chosen = rng.choice(choices)
    other = _in_other_unit(kind, value, chosen) if isinstance(value, int | float) else ""
    if other and rng.random() < OTHER_UNIT_SHARE:
        return other
    if isinstance(value, WordedValue):
        text = value.text
    elif isinstance(value, Mapping):
        text = enumerated(_members(words, place, kind, value, rng))
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        items = [" ".join(_members(words, place, kind, each, rng)) for each in value]
        text = join_with_and(items, rng)
    else:
        text = spoken_value(kind, value, rng)
        if text.isalpha() and isinstance(value, int | float) and _SHORT_UNIT.search(chosen):
            text = f"{value:g}"
        if "'" not in chosen and '"' not in chosen:
            text = with_optional_quotes(kind, text, "", rng)
    said = chosen.replace("{}", text).replace("the the ", "the ")
    return _ONE.sub(lambda one: f"{one[1]} {singular(one[2])}", said)


def _members(
    words: FunctionWords, place: str, kind: ArgumentKind, value: Mapping[str, Any], rng: Random
) -> list[str]:
    """Return the values of an object's keys, each in its clause or behind the key."""
    found = []
    for key, kind_of_key in (kind.item or kind).keys_of(value).items():
        if key in value:
            one = value[key]
            said = _said_in_clause(words, f"{place}.{key}", kind_of_key, one, rng, None)
            found.append(said or f"{key} {spoken_value(kind_of_key, one, rng)}")
    return found


def _in_other_unit(kind: ArgumentKind, value: float, form: str) -> str:
    """Return a clause in another unit that the document names; "" if none."""
    unit = _UNIT.search(form)
    if unit is None or f" {unit[1]} " not in f" {kind.description.strip('.')} ":
        return ""
    amount: str = word_table("value_words")["amounts"].get(f"{unit[1]} {value:g}", "")
    before = form[: unit.start()]
    amount = re.sub(r"^an? ", "", amount) if before.endswith(_COUNTING) else amount
    return f"{before}{amount}{form[unit.end() :]}" if amount else ""
