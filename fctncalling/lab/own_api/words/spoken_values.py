"""Spoken values, dates and times: forms that people write, each of which says one value only."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from fctncalling.lab.own_api.english import (
    NUMBERS,
    ORDINALS,
    date_forms,
    enumerated,
    singular,
    spaced_words,
)
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.kinds.scalar_kind import parse_moment
from fctncalling.lab.own_api.kinds.standards import STANDARDS
from fctncalling.lab.own_api.kinds.value_tables import library, other_forms
from fctncalling.lab.own_api.words.vocabulary import split_phrases, word_table

HOURS = "twelve one two three four five six seven eight nine ten eleven".split()


@dataclass(frozen=True)
class WordedValue:
    """Value in the words that a request has to say it in."""

    text: str


def spoken_date(day: datetime.date, rng: Random) -> str:
    """Return a day in a form that people write."""
    forms = [day.isoformat(), day.isoformat(), *date_forms(day)]
    if day.day <= len(ORDINALS):
        forms += [f"the {ORDINALS[day.day - 1]} of {day:%B %Y}"] * 2
    if day.day > 12:
        forms += [f"{day.day}/{day.month}/{day.year}", f"{day.month}/{day.day}/{day.year}"]
        forms += [f"{day:%d.%m.%Y}", f"{day.day}.{day.month}.{day.year}"]
    return rng.choice(forms)


def spoken_time(hour: int, minute: int, rng: Random) -> str:
    """Return a clock time in a form that people write."""
    half = "am" if hour < 12 else "pm"
    twelve = hour % 12 or 12
    colon = f":{minute:02d}"
    forms = [f"{hour:02d}{colon}", f"{hour:02d}{colon}", f"{hour}{colon}"]
    forms += [
        f"{twelve}{colon if minute else ''} {half}",
        f"{twelve}{colon if minute else ''}{half}",
    ]
    part = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    name, following = HOURS[hour % 12], HOURS[(hour + 1) % 12]
    in_words = {
        0: [f"{name} o'clock {part}", f"{twelve} {part}", f"{name} {part}"],
        15: [f"a quarter past {name} {part}"],
        30: [f"half past {name} {part}", f"half past {twelve} {part}", f"{name} thirty {part}"],
        45: [f"a quarter to {following} {part}"] if hour not in (11, 17, 23) else [],
    }
    forms += in_words.get(minute, [])
    if (hour, minute) == (12, 0):
        forms += ["noon", "12 noon"]
    return rng.choice(forms)


STANDARD_WORDS_SHARE = 0.35  # of codes that are said by their names: "Germany" for DE


def spoken_value(kind: ArgumentKind, value: Any, rng: Random) -> str:
    """Return a value as people write it; literally if every other form would say less."""
    if isinstance(value, WordedValue):
        return value.text
    if isinstance(value, Mapping):
        if text := address_text(kind, value):
            return text
        keys = kind.keys_of(value)
        said = {
            n: spoken_value(keys[n], e, rng) if n in keys else _plain(e) for n, e in value.items()
        }
        return ", ".join(f"{spaced_words(name)} {text}" for name, text in said.items())
    if isinstance(value, list):
        return _listed(kind, value, rng)
    if kind.values or kind.kind == "enum":
        return rng.choice(enum_value_words(kind, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    is_number = isinstance(value, int | float)
    return _number(kind, value, rng) if is_number else _text(kind, str(value), rng)


def address_text(kind: ArgumentKind, value: Mapping[str, Any]) -> str:
    """Return an object as a written address: "Long Lane 14, 04109 Leipzig"; "" for others.

    A receiver beside an address stands before it.
    """
    lines_of = [*word_table("value_words")["address"].values()]
    parts = [""] * len(lines_of)
    keys = kind.keys_of(value)
    inner = {
        name: address_text(keys[name], each)
        for name, each in value.items()
        if name in keys and isinstance(each, Mapping)
    }
    people = [name for name in value if name in keys and keys[name].kind == "person_name"]
    if len(inner) == 1 and all(inner.values()) and len(people) == 1 and len(value) == 2:
        return f"{value[people[0]]}, {next(iter(inner.values()))}"
    for name, each in value.items():
        words = spaced_words(name)
        at = next((i for i, p in enumerate(lines_of) if re.fullmatch(p, words)), None)
        if at is None or parts[at] or not isinstance(each, str | int):
            return ""
        parts[at] = str(each)
    street, number, code, city, *rest = parts
    if not street or not (code or city):
        return ""
    lines = [f"{street} {number}".strip(), f"{code} {city}".strip(), *rest]
    return ", ".join(filter(None, lines))


def _plain(value: Any) -> str:
    """Return a value literally, but never as Python writes an object."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(each)}" for key, each in value.items())
    return f"{value:.12g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


def enum_value_words(kind: ArgumentKind, value: Any) -> list[str]:
    """Return the words of a listed value: itself, and those that fit none of the other values."""
    text = str(value)
    if kind.topic in STANDARDS:
        return [text, *[*STANDARDS[kind.topic].says(text)] * 5]  # codes are rarely said
    shouted = kind.evidence != "x-kind" and re.fullmatch(r"[A-Z]{4,}|[A-Z]+(?:[_ ][A-Z]+)+", text)
    if re.search(r"\w[.:/]\w|[\[\]{}\d]", text) or not (shouted or re.search(r"[a-z]", text)):
        return [text]  # codes are said as they are
    if re.match(r"-[a-z]", text) and text[1:] in kind.values:
        return [f"{spaced_words(text)} in descending order"]
    plain = text if " " in text else text.replace("_", " ").replace("-", " ")
    plain = plain.lower() if shouted else plain
    taken = {each for other in kind.values if other != value for each in _all_words(str(other))}
    if plain.lower() in taken:
        return [text]  # only its letters tell it from another
    words = value_row(text).get("words", ())
    if len(plain) < 5 and words and words[0].startswith(plain):
        return [*words]  # "ascending" for asc
    about = kind.description.lower()  # no "ordinary service" of a notification
    fitting = [each for each in words if each.lower() not in taken]
    fitting = [e for e in fitting if not e.startswith("the ") or e.split(" ")[-1] in about]
    if len(plain) < 3:  # a code, which people rarely say
        return [plain, *(each for each in fitting for _ in range(4))]
    return [plain, plain, *fitting]


@cache
def value_row(value: str) -> dict[str, tuple[str, ...]]:
    """Return the table's words, clauses and sentences of a listed value."""
    table: dict[str, dict[str, str]] = word_table("value_words")["values"]
    key = value if value in table else value.lower().replace(" ", "_")
    return {part: split_phrases(text) for part, text in table.get(key, {}).items()}


@cache
def _all_words(value: str) -> frozenset[str]:
    words = (each.lower() for each in value_row(value).get("words", ()))
    return frozenset((*words, re.sub("[_-]", " ", value.lower())))


def _number(kind: ArgumentKind, value: float, rng: Random) -> str:
    unit = kind.unit
    if kind.topic == "fraction":
        return f"{value * 100:g}%"
    if unit.endswith(" cents"):
        return _money(value / 100, unit.split(" ")[0], rng)
    if len(unit) == 3 and unit.isupper():
        return _money(value, unit, rng)
    amount: str | None = word_table("value_words")["amounts"].get(f"{unit} {value:g}")
    if amount is not None and rng.random() < 0.3:
        return amount
    plain, numerals = _plain(value), f"{value:,.12g}"
    is_year = (kind.minimum or 0) >= 1000 and (kind.maximum or 9999) < 2200
    is_amount = kind.kind not in ("identifier", "year") and not kind.topic and not is_year
    if value >= 1000 and is_amount and rng.random() < 0.4:
        plain = numerals.replace(",", rng.choice((",", ",", " ")))
    elif value == int(value) and 0 < value < len(NUMBERS) and rng.random() < 0.4:
        plain = NUMBERS[int(value)]
    elif value % 1 == 0.5 and 1 <= value < len(NUMBERS) and rng.random() < 0.2:
        plain = f"{NUMBERS[int(value)]} and a half"
    units = word_table("value_words")["units"]
    if unit not in units or round(value, 3) != value:  # forms of units round
        return plain
    is_duration = units[unit].startswith("duration")
    if value == 1 and is_duration:
        one = singular(unit)
        return f"{rng.choice(('one', '1', 'a' if one != 'hour' else 'an'))} {one}"
    is_long = is_duration or plain.isalpha() or rng.random() < 0.5 or " " in plain
    text = library("babel.units").format_unit(
        value,
        units[unit],
        length="long" if is_long else "short",
        locale=rng.choice(("en_GB", "en_US")),
    )
    return str(text).replace(numerals, plain)


def _money(value: float, currency: str, rng: Random) -> str:
    numbers = library("babel.numbers")
    if round(value, 2) != value:
        return f"{_plain(value)} {currency}"
    amount = f"{value:,.2f}".removesuffix(".00")
    name = numbers.get_currency_name(currency, count=value, locale="en")
    short = name.removeprefix("US ").removeprefix("British ")
    symbol = numbers.get_currency_symbol(currency, locale="en")
    forms = (f"{amount} {name}", f"{amount} {short}", f"{amount} {currency}", f"{symbol}{amount}")
    return str(rng.choice(forms))


def _text(kind: ArgumentKind, value: str, rng: Random) -> str:
    if kind.kind == "standard":
        words = STANDARDS[kind.topic].says(value)
        return rng.choice(words) if words and rng.random() < STANDARD_WORDS_SHARE else value
    if named := [each for each in other_forms(kind.topic, value) if each.startswith("the ")]:
        return named[0]  # "the Louvre", which a call names without its article
    when = parse_moment(value, kind.format) if kind.format and "%" in kind.format else None
    if when is not None and kind.kind == "date":
        return spoken_date(when.date(), rng)
    if when is not None and kind.kind == "time":
        return spoken_time(when.hour, when.minute, rng)
    if when is not None and kind.kind == "datetime":
        day, clock = spoken_date(when.date(), rng), spoken_time(when.hour, when.minute, rng)
        return rng.choice((f"{clock} on {day}", f"{clock} on {day}", f"{clock}, {day}"))
    if when is not None and kind.kind == "month":
        return rng.choice((value, f"{when:%B %Y}", f"{when:%b %Y}"))
    if kind.kind == "phone" and rng.random() < 0.3 and re.fullmatch(r"\+\d{9,}", value):
        return f"{value[:3]} {value[3:6]} {value[6:]}"
    return value


def _listed(kind: ArgumentKind, value: list[Any], rng: Random) -> str:
    item, numbers = kind.item, all(isinstance(each, int | float) for each in value)
    texts = [
        spoken_value(item, each, rng) if item and not (numbers and not item.unit) else _plain(each)
        for each in value
    ]
    if kind.type == "tuple":
        return f"({', '.join(texts)})"
    if numbers:
        return enumerated(texts)  # "3 plus 4" would be a sum
    return join_with_and(texts, rng)


_CONJUNCTIONS = (" as well as ", " and also ", " plus ", " & ", " + ", ", ", " AND ")


def join_with_and(texts: Sequence[str], rng: Random) -> str:
    """Return things one after the other: "A, B and C"."""
    if len(texts) < 2:
        return texts[0]
    return enumerated(texts, " and " if rng.random() < 0.75 else rng.choice(_CONJUNCTIONS))
