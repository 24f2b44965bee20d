"""Kinds of argument values: what a user says, what the call holds, what else is accepted."""

from __future__ import annotations

import random
import re
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from fctncalling.lab.forge.single_turn.category_profiles import read_word_lists
from fctncalling.lab.own_api.english import MONTHS, NUMBERS, enumerated

NUMBER_WORDS = NUMBERS[1:11]
TYPES = {
    "int": "integer",
    "count": "integer",  # said in words only: quarterly for 4
    "tall": "integer",  # inches, said in feet and inches
    "part": "float",  # a decimal said in words only
    "float": "float",
    "rate": "float",
    "whole": "float",  # a float whose values are whole numbers
    "bool": "boolean",
    "array": "array",
    "ints": "array",
    "floats": "array",
    "dicts": "array",
    "tuple": "tuple",
    "dict": "dict",
}
"""Kind -> BFCL's type; every other kind is a string."""

QUOTED = frozenset(
    ("film", "series", "book", "song", "album", "artwork", "file_name", "folder", "event_name")
).union(
    ("dataset", "image_file", "database_table", "repository", "branch", "host", "video_game"),
    ("material", "compound", "company", "restaurant", "hotel", "job", "topic", "course"),
)
"""Word lists whose words a user may put in quotes."""
QUOTED_SHARE = 0.55
NUMBER_WORD_SHARE = 0.22  # of whole numbers up to ten that are said as words
WHOLE_SHARE = 0.5  # of lists of decimals that hold whole numbers


_ARTICLE = re.compile(r"^(?:The|A|An) ")
_PART = re.compile(r"\{([a-z.]*)\}")


class ValueKind(NamedTuple):
    """A kind as a table names it: `int(1,200)` or `string:city`."""

    name: str
    words: str = ""  # which word list
    args: tuple[str, ...] = ()

    @property
    def bfcl_type(self) -> str:
        """The type of a Python function doc."""
        return TYPES.get(self.name, "string")

    @property
    def item_type(self) -> str | None:
        """The type of the items of an array or a tuple; None for other kinds."""
        items = {"array": "string", "ints": "integer", "floats": "float", "tuple": "float"}
        return items.get(self.name, "dict" if self.name == "dicts" else None)


class DrawnValue(NamedTuple):
    """One value of an argument."""

    value: Any  # as the call holds it, JSON-shaped
    text: str  # as the user says it
    others: tuple[Any, ...] = ()  # further values that are right
    clause: str = ""  # the whole clause that says it, where no other clause fits

    @property
    def accepted(self) -> list[Any]:
        """The values accepted by a BFCL ground truth."""
        return [self.value, *self.others]


def draw_value(kind: ValueKind, rng: random.Random) -> DrawnValue:
    """Return a value of a kind. Raises LookupError for a kind that no table may name."""
    if kind.name == "string":
        drawn = _listed_word(rng.choice(word_list(kind.words)), kind.words, rng)
        if kind.words in QUOTED and rng.random() < QUOTED_SHARE:
            mark = rng.choice("'\"")
            return drawn._replace(text=f"{mark}{drawn.text}{mark}")
        return drawn
    if kind.name == "object":  # a variable of the program, passed by its name
        name = rng.choice(kind.args)
        return DrawnValue(name, name)
    if kind.name == "enum":
        value, *said = rng.choice(kind.args or word_list(kind.words)).split("=")
        return DrawnValue(value, said[0] if said and kind.args else value)
    if kind.name in ("array", "ints", "floats"):
        return _several(kind, rng)
    return _DRAWS[kind.name](kind, rng)


def enum_words(kind: ValueKind) -> tuple[str, ...]:
    """Return the words an enum offers."""
    return tuple(word.split("=")[0] for word in (kind.args or word_list(kind.words)))


@cache
def word_list(name: str) -> tuple[str, ...]:
    """Return the words of a list; an entry is `value`, or `value=other=other`."""
    lists = read_word_lists()
    if name not in lists:
        raise LookupError(f'no word list is called "{name}": expected one of {sorted(lists)}')
    return lists[name]


def accepted_forms(name: str, word: str) -> list[str]:
    """Return the further forms of a word of a list that are accepted."""
    parts = {
        "bare": _ARTICLE.sub("", word),
        "last": word.split()[-1],
        "start": word[:3],
        "vs": word.replace(" v. ", " vs "),
        "vs.": word.replace(" v. ", " vs. "),
    }
    forms = read_word_lists("forms")
    listed = (*forms.get(name, ()), *forms.get(f"{name}/{word}", ()))
    return [_PART.sub(lambda found: parts.get(found[1], word), form) for form in listed]


def _listed_word(entry: str, name: str, rng: random.Random) -> DrawnValue:
    """Return a word of a list in one of its forms: the form that is said is the first accepted.

    An article in front is said, and better not passed: it comes second.
    """
    forms = entry.split("=")
    said = rng.choice(forms)
    value = said
    if len(forms) > 1 and forms[0].startswith("the "):  # of a name, not of a sentence
        said = forms[0]
        value = said.removeprefix("the ")
    accepted = dict.fromkeys([value, *forms, *accepted_forms(name, forms[0])])
    return DrawnValue(value, said, tuple(accepted)[1:])


def _several(kind: ValueKind, rng: random.Random) -> DrawnValue:
    if kind.name == "array":
        words = [entry.split("=")[0] for entry in word_list(kind.words)]
        fewest, most = (int(kind.args[0]), int(kind.args[1])) if kind.args else (2, 3)
        values: list[Any] = rng.sample(words, rng.randint(fewest, min(most, len(words))))
        return DrawnValue(values, enumerated(values))
    low, high = float(kind.args[0]), float(kind.args[1])
    count = rng.randint(int(kind.args[2]), int(kind.args[3]))
    if kind.words == "shares":
        cuts = sorted(rng.sample(range(1, 10), count - 1))
        values = [(end - start) / 10 for start, end in pairwise([0, *cuts, 10])]
    elif kind.name == "ints":
        values = [rng.randint(int(low), int(high)) for _ in range(count)]
    else:
        wholes = rng.random() < WHOLE_SHARE  # then some or all of them are whole numbers
        values = [_tenths(rng.uniform(low, high), wholes, rng) for _ in range(count)]
    texts = [f"{value:g}" for value in values]
    text = rng.choice([enumerated(texts), f"[{', '.join(texts)}]", ", ".join(texts)])
    return DrawnValue(values, text)


def _tenths(number: float, may_be_whole: bool, rng: random.Random) -> float:
    rounded = round(number, 1)
    if may_be_whole:
        return float(round(number)) if rng.random() < 0.7 else rounded
    return rounded if rounded % 1 else rounded + 0.5


def _count(kind: ValueKind, rng: random.Random) -> DrawnValue:
    value, _, said = rng.choice(kind.args).partition("=")
    number = float(value) if kind.name == "part" else int(value)
    return DrawnValue(number, rng.choice(said.split("/")))


def _tall(kind: ValueKind, rng: random.Random) -> DrawnValue:
    inches = rng.randint(int(kind.args[0]), int(kind.args[1]))
    feet, rest = divmod(inches, 12)
    forms = [f"{feet} ft {rest} in", f"{feet} feet {rest} inches", f"{feet} foot {rest}"]
    if rest == 0:
        forms = [f"{feet} feet", f"{NUMBER_WORDS[feet - 1]} feet", f"{feet} ft"]
    return DrawnValue(inches, rng.choice([*forms, f"{inches} inches"]))


def _integer(kind: ValueKind, rng: random.Random) -> DrawnValue:
    low, high, *step = (int(arg) for arg in kind.args)
    value = rng.randrange(low, high + 1, step[0] if step else 1)
    if 1 <= value <= 10 and rng.random() < NUMBER_WORD_SHARE:
        return DrawnValue(value, NUMBER_WORDS[value - 1])
    with_comma = kind.name == "int" and value >= 10000 and rng.random() < 0.6
    return DrawnValue(value, f"{value:,}" if with_comma else str(value))


def _whole(kind: ValueKind, rng: random.Random) -> DrawnValue:
    drawn = _integer(kind, rng)
    return DrawnValue(float(drawn.value), drawn.text)


def _float(kind: ValueKind, rng: random.Random) -> DrawnValue:
    low, high = float(kind.args[0]), float(kind.args[1])
    digits = int(kind.args[2]) if len(kind.args) > 2 else 1
    if high >= 10 and rng.random() < 0.4:
        value = float(rng.randint(max(1, int(low)), int(high)))
        return DrawnValue(value, str(int(value)))
    value = round(rng.uniform(low, high), digits) or low
    return DrawnValue(value, str(value).removesuffix(".0"))


def _rate(kind: ValueKind, rng: random.Random) -> DrawnValue:
    low, high = float(kind.args[0]), float(kind.args[1])
    percent = rng.choice([round(rng.uniform(low, high)), round(rng.uniform(low, high) * 2) / 2])
    percent = percent or low
    shown = f"{percent:g}"
    return DrawnValue(round(percent / 100, 6), f"{shown}%")


def _bool(_: ValueKind, rng: random.Random) -> DrawnValue:
    value = rng.random() < 0.7
    return DrawnValue(value, "true" if value else "false")


def _date(kind: ValueKind, rng: random.Random) -> DrawnValue:
    year, month, day = rng.choice((2024, 2025, 2026)), rng.randint(1, 12), rng.randint(1, 28)
    name = MONTHS[month - 1]
    iso = f"{year}-{month:02}-{day:02}"
    written = [f"{name} {day}, {year}", f"{day} {name} {year}", iso, f"{name} {day} {year}"]
    text = rng.choice(written)
    if kind.words == "free":
        others = [f"{month:02}/{day:02}/{year}", *written]
        return DrawnValue(iso, text, tuple(each for each in others if each != iso))
    return DrawnValue(iso, text)


def _time(kind: ValueKind, rng: random.Random) -> DrawnValue:
    hour, minute = rng.randint(7, 21), rng.choice((0, 0, 15, 30, 45))
    clock = f"{(hour - 1) % 12 + 1}" + (f":{minute:02}" if minute else "")
    spoken = f"{clock} {'AM' if hour < 12 else 'PM'}"
    value = f"{hour:02}:{minute:02}"
    others = (spoken, spoken.replace(" ", ""), spoken.lower()) if kind.words == "free" else ()
    return DrawnValue(value, rng.choice([spoken, spoken, value]), others)


def _code(kind: ValueKind, rng: random.Random) -> DrawnValue:
    letters = "".join(rng.choice("ABCDEFGHJKLMNPRSTUVWXYZ") for _ in range(2))
    number = rng.randint(1000, 99999)
    prefix = kind.args[0] if kind.args else letters
    value = f"{prefix}{number}" if kind.words == "joined" else f"{prefix}-{number}"
    return DrawnValue(value, value)


def _email(_: ValueKind, rng: random.Random) -> DrawnValue:
    first, last = rng.choice(word_list("person")).lower().split("=")[0].split()[:2]
    host = rng.choice(("example.com", "example.org", "mail.example.net"))
    value = rng.choice([f"{first}.{last}", f"{first[0]}{last}", first]) + f"@{host}"
    return DrawnValue(value, value)


def _tuple(kind: ValueKind, rng: random.Random) -> DrawnValue:
    if kind.words == "point":
        values = [float(rng.randint(-9, 9)), float(rng.randint(-9, 9))]
        return DrawnValue(values, f"({values[0]:g}, {values[1]:g})")
    values = [round(rng.uniform(-60, 65), 2), round(rng.uniform(-150, 150), 2)]
    return DrawnValue(
        values, rng.choice([f"({values[0]}, {values[1]})", f"{values[0]}, {values[1]}"])
    )


def _expression(_: ValueKind, rng: random.Random) -> DrawnValue:
    power, a, b, c = rng.randint(2, 5), rng.randint(2, 9), rng.randint(2, 12), rng.randint(1, 20)
    value = rng.choice(
        [f"{a}x^{power} + {b}x + {c}", f"x^{power} - {a}x", f"{a}x^2 + {b}x", f"x^{power} + {c}"]
    )
    return DrawnValue(value, value, (value.replace("^", "**"),))


_DRAWS = {
    "int": _integer,
    "long": _integer,
    "whole": _whole,
    "count": _count,
    "part": _count,
    "tall": _tall,
    "float": _float,
    "rate": _rate,
    "bool": _bool,
    "date": _date,
    "time": _time,
    "code": _code,
    "email": _email,
    "tuple": _tuple,
    "expression": _expression,
}
