"""Dates and clock times as people write them; each form says one day or one minute only."""

from __future__ import annotations

import datetime
from random import Random

_SUFFIXES = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
HOURS = "twelve one two three four five six seven eight nine ten eleven".split()


def ordinal(number: int) -> str:
    """Return "1st", "22nd"."""
    return f"{number}{_SUFFIXES.get(number, 'th')}"


def spoken_date(day: datetime.date, rng: Random) -> str:
    """Return a day in a form that people write."""
    month, short = f"{day:%B}", f"{day:%b}"
    forms = [
        day.isoformat(),
        day.isoformat(),
        f"{day.day} {month} {day.year}",
        f"{day.day} {month} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"the {ordinal(day.day)} of {month} {day.year}",
        f"{month} {ordinal(day.day)}, {day.year}",
        f"{month} {ordinal(day.day)} {day.year}",
        f"{day.day} {short} {day.year}",
        f"{short} {day.day}, {day.year}",
        f"{short} {ordinal(day.day)} {day.year}",
        f"{day:%d.%m.%Y}",
        f"{day.day}.{day.month}.{day.year}",
        f"{day:%A}, {day.day} {month} {day.year}",
        f"{day:%A} {month} {day.day}, {day.year}",
        f"{day:%A} the {ordinal(day.day)} of {month} {day.year}",
    ]
    if day.day <= len(ORDINALS):
        forms += [f"the {ORDINALS[day.day - 1]} of {month} {day.year}"] * 2
    if day.day > 12:
        forms += [f"{day.day}/{day.month}/{day.year}", f"{day.month}/{day.day}/{day.year}"]
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


def parse_moment(text: str, form: str) -> datetime.datetime | None:
    """Return the moment that a value writes; None where it writes none."""
    try:
        return datetime.datetime.strptime(text, form)
    except ValueError:
        return None
