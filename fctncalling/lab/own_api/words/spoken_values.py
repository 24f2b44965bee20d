"""Spoken values, dates and times: forms that people write, each of which says one value only."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
_WRITTEN_TOGETHER = re.compile(
    r"(?:without|no) (?:blanks?|spaces?|hyphens?)|(?:letters|digits) only|letters and digits only",
    re.I,
)
"""Description of a code that people write with a blank or hyphen all the same: "KLM 482"."""


def spoken_value(kind: ArgumentKind, value: Any, rng: Random) -> str:
    """Return a value as people write it; literally if every other form would say less."""
    if isinstance(value, WordedValue):
        return value.text
    if isinstance(value, Mapping):
        return _said_object(kind, value, rng)
    if isinstance(value, list):
        return _listed(kind, value, rng)
    return _said(kind, value, rng)


def _said_plainly(value: Any) -> str:
    """Return a value of no known kind literally, but never as Python writes an object."""
    if isinstance(value, WordedValue):
        return value.text
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_said_plainly(each)}" for key, each in value.items())
    if isinstance(value, list):
        return enumerated([_said_plainly(each) for each in value])
    return _plain(value)


def _plain(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


def _said(kind: ArgumentKind, value: Any, rng: Random) -> str:
    if kind.values or kind.kind == "enum":
        return rng.choice(enum_value_words(kind, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(kind, value, rng)
    return _text(kind, str(value), rng)


def enum_value_words(kind: ArgumentKind, value: Any) -> list[str]:
    """Return the words of a listed value: itself, and those that fit none of the other values."""
    plain = str(value).replace("_", " ").replace("-", " ") if " " not in str(value) else str(value)
    if re.match(r"-[a-z]", str(value)) and str(value)[1:] in kind.values:
        return [f"{spaced_words(str(value))} in descending order"]
    if sum(_small(each) == _small(value) for each in kind.values if each != f"-{value}") > 1:
        return [str(value)]  # only its letters tell it from another
    if kind.topic in STANDARDS:
        return [str(value), *STANDARDS[kind.topic].says(str(value))]
    if re.search(r"\w[.:/]\w|[\[\]{}]", str(value)):
        return [str(value)]  # a path or another code
    is_shouted = (
        kind.evidence != "x-kind"
        and re.fullmatch(r"[A-Z]{4,}|[A-Z]+(?:[_ ][A-Z]+)+", str(value)) is not None
    )
    if is_shouted:
        plain = plain.lower()
    elif not re.search(r"[a-z]", str(value)) or re.search(r"\d", str(value)):
        return [str(value)]  # codes are said as they are
    words = _row(value).get("words", ())
    if len(plain) < 5 and words and words[0].startswith(plain):
        return [*words]  # "ascending" for asc
    is_code = len(plain) < 3  # which people rarely say
    found = [plain] if is_code else [plain, plain]
    about = kind.description.lower()
    for word in words:
        if word.startswith("the ") and word.split(" ")[-1] not in about:
            continue  # "the ordinary service" of a notification
        if not any(_shares(word, other) for other in kind.values if other != value):
            found += [word] * (4 if is_code else 1)
    return found


def _small(value: Any) -> str:
    return re.sub(r"[\W_]+", " ", str(value)).lower()


def enum_value_clauses(kind: ArgumentKind, value: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (clauses, sentences) that say a listed value without the parameter's name.

    From the table and from the description: "express (next day)", "morning is 8 to 12".
    """
    row = _row(value)
    clauses, sentences = list(row.get("clauses", ())), list(row.get("sentences", ()))
    gloss = _gloss(kind.description, str(value))
    if gloss and re.match(r"\d{1,2} to \d{1,2}$", gloss):
        low, high = gloss.split(" to ")
        clauses += [f"between {low} and {high} o'clock", f"from {low} to {high}"]
        low, high = (NUMBERS[int(each)] if int(each) < 13 else each for each in (low, high))
        clauses += [f"between {low} and {high}".replace("and twelve", "and noon")]
    elif gloss:
        clauses.append(f"so that it is {gloss}" if re.search(r"\d|next", gloss) else gloss)
    return tuple(clauses), tuple(sentences)


def _row(value: Any) -> dict[str, tuple[str, ...]]:
    table: dict[str, dict[str, str]] = word_table("value_words")["values"]
    key = str(value) if str(value) in table else str(value).lower().replace(" ", "_")
    return {part: split_phrases(text) for part, text in table.get(key, {}).items()}


def _shares(word: str, other: Any) -> bool:
    """Return whether a word also means another value of the list."""
    words = {each.lower() for each in _row(other).get("words", ())}
    return word.lower() in words | {str(other).lower().replace("_", " ")}


def _gloss(description: str, value: str) -> str:
    """Return a description's gloss on a listed value, in brackets or after "is"."""
    word = re.escape(value)
    if found := re.search(rf"\b{word} \(([^)]+)\)", description):
        return found[1]
    if found := re.search(rf"\b{word} (?:is |= ?)?(\d+ to \d+)\b", description):
        return found[1]
    return ""


_UNITS = {
    "kg": "mass-kilogram",
    "g": "mass-gram",
    "km": "length-kilometer",
    "m": "length-meter",
    "cm": "length-centimeter",
    "mm": "length-millimeter",
    "miles": "length-mile",
    "l": "volume-liter",
    "%": "concentr-percent",
    "degrees Celsius": "temperature-celsius",
    **{f"{each}s": f"duration-{each}" for each in "second minute hour day week month year".split()},
}
"""Unit -> Unicode's name of it."""
_SMALLER = {"kg": "g", "km": "m"}


def _number(kind: ArgumentKind, value: float, rng: Random) -> str:
    unit = kind.unit
    if round(value, 3) != value:
        return _plain(value)  # forms of units and of money round
    if kind.topic == "fraction":
        return f"{value * 100:g}%"
    if unit.endswith(" cents"):
        return _money(value / 100, unit.split(" ")[0], rng)
    if len(unit) == 3 and unit.isupper():
        return _money(value, unit, rng)
    amount: str | None = word_table("value_words")["amounts"].get(f"{unit} {value:g}")
    if amount is not None and rng.random() < 0.3:
        return amount
    if unit in _SMALLER and 0 < value < 1 and rng.random() < 0.5:
        unit, value = _SMALLER[unit], round(value * 1000)
    plain, numerals = _plain(value), f"{value:,.12g}"
    if (
        value >= 1000
        and kind.kind not in ("identifier", "year")
        and not kind.topic
        and rng.random() < 0.4
    ):
        plain = numerals.replace(",", rng.choice((",", ",", " ")))
    elif value == int(value) and 0 < value < len(NUMBERS) and rng.random() < 0.4:
        plain = NUMBERS[int(value)]
    elif value % 1 == 0.5 and 1 <= value < len(NUMBERS) and rng.random() < 0.2:
        plain = f"{NUMBERS[int(value)]} and a half"
    if unit not in _UNITS:
        return plain
    if value == 1 and _UNITS[unit].startswith("duration"):
        one = singular(unit)
        return f"{rng.choice(('one', '1', 'a' if one != 'hour' else 'an'))} {one}"
    is_long = _UNITS[unit].startswith("duration") or plain.isalpha() or rng.random() < 0.5
    text = library("babel.units").format_unit(
        value,
        _UNITS[unit],
        length="long" if is_long or " " in plain else "short",
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
    if kind.kind == "identifier" and _WRITTEN_TOGETHER.search(kind.description):
        apart = re.sub(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])", rng.choice(" -"), value, count=1)
        return apart if rng.random() < 0.5 else value
    if kind.kind == "standard":
        words = STANDARDS[kind.topic].says(value)
        return rng.choice(words) if words and rng.random() < STANDARD_WORDS_SHARE else value
    if named := [each for each in other_forms(kind.topic, value) if each.startswith("the ")]:
        return named[0]  # "the Louvre", which a call names without its article
    when = parse_moment(value, kind.format) if kind.format and "%" in kind.format else None
    if when is not None and (when.second or when.tzinfo):
        return value  # which no spoken form says
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
    item = kind.item
    texts = [
        _said_plainly(each)
        if item is None or (isinstance(each, int | float) and not item.unit)
        else spoken_value(item, each, rng)
        for each in value
    ]
    if item is not None and item.kind in ("object", "one_of"):
        return "; ".join(texts)
    if kind.type == "tuple":
        return f"({', '.join(texts)})"
    if all(isinstance(each, int | float) for each in value):
        return enumerated(texts)  # "3 plus 4" would be a sum
    return join_with_and(texts, rng)


_CONJUNCTIONS = (" as well as ", " and also ", " plus ", " & ", " + ", ", ", " AND ")


def join_with_and(texts: Sequence[str], rng: Random) -> str:
    """Return things one after the other: "A, B and C"."""
    if len(texts) < 2:
        return texts[0]
    return enumerated(texts, " and " if rng.random() < 0.75 else rng.choice(_CONJUNCTIONS))


def _said_object(kind: ArgumentKind, value: Mapping[str, Any], rng: Random) -> str:
    """Return an object's values: an address in one line, other values after their keys."""
    keys, parts = kind.keys_of(value), []
    for name, each in value.items():
        text = spoken_value(keys[name], each, rng) if name in keys else _said_plainly(each)
        tells = name in keys and keys[name].kind in _TELLING
        is_clear = tells or re.search(r"zip|post|street", name.lower())
        parts.append(text if is_clear else f"{spaced_words(name)} {text}")
    return ", ".join(parts)


_TELLING = ("object", "one_of", "place", "person_name", "email", "url")
"""Kinds of values that need no key before them."""
