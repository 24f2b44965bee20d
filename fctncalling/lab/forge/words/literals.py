"""Literal forms of values: numbers, sums of money, dates, quoted texts, lists.

Every literal is enclosed in OPEN and CLOSE until the turn is finished, so that what polishes a
sentence (capitals, articles, slips of the pen) leaves values alone.
"""

from __future__ import annotations

import re
from datetime import date
from random import Random
from typing import Any

from fctncalling.lab.own_api.english import date_forms, enumerated

OPEN, CLOSE = "\ue000", "\ue001"


def mark_literal(text: str) -> str:
    """Return a text marked as a value."""
    return f"{OPEN}{text}{CLOSE}"


def strip_marks(text: str) -> str:
    """Return a text without the marks of its values."""
    return text.replace(OPEN, "").replace(CLOSE, "")


def quote_text(text: str, mark: str) -> str:
    """Return a text in the quotation mark, or in another that it does not contain."""
    if re.search(r"[\"“”]", text) if mark == '"' else re.search(r"'", text):
        mark = '"' if mark == "'" and '"' not in text else "“"
    return mark_literal(f"“{text}”" if mark == "“" else f"{mark}{text}{mark}")


def number_text(value: Any) -> str:
    """Return a number as people write it: 3 for 3.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def money_text(value: Any, draw: Random) -> str:
    """Return a sum of dollars in one of its written forms."""
    plain = number_text(value)
    cents = f"{value:.2f}" if isinstance(value, float) and round(value, 2) == value else plain
    forms = [f"${plain}", f"${plain}", f"{plain} dollars", f"{plain} USD", f"USD {plain}"]
    forms += [f"${cents}", f"{plain} US dollars", f"{plain} bucks"]
    if isinstance(value, int | float) and abs(value) >= 1000 and round(value, 2) == value:
        comma = f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"
        forms += [f"${comma}", f"{comma} dollars"]
    return draw.choice(forms)


def date_text(day: date, draw: Random) -> str:
    """Return a date in one of its spoken forms, the ISO form left out."""
    return draw.choice([*date_forms(day), f"{day:%Y/%m/%d}"])


def list_text(items: list[str], draw: Random) -> str:
    """Return items as an enumeration."""
    joints = [" and ", " and ", ", and "]
    return enumerated(items, draw.choice(joints) if len(items) > 2 else " and ")
