"""Names that a call can bear, made from a specification's own."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection

MAX_NAME = 64
_CALLABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")


def callable_name(name: str, taken: Collection[str], otherwise: str) -> str:
    """Return a name such as a call can bear, not among those taken.

    The name itself where it is one; else its letters of the Latin alphabet with underscores
    between; `otherwise` where it has none.
    """
    found = name if is_callable_name(name) else _latin(name) or otherwise
    if keyword.iskeyword(found):
        found += "_"
    return free_name(found[:MAX_NAME], taken)


def is_callable_name(name: str) -> bool:
    """Return whether a call in Python's form can bear a name."""
    sound = bool(_CALLABLE.fullmatch(name)) and len(name) <= MAX_NAME
    return sound and not any(map(keyword.iskeyword, name.split(".")))


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name with a number behind it where it is taken."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def _latin(name: str) -> str:
    """Return a name in the letters A to Z: accents fall, other scripts are left out."""
    letters = [each for each in name if each.isalpha()]
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    if 2 * sum(each.isalpha() for each in plain) < len(letters):
        return ""
    word = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")
    return f"_{word}" if word[:1].isdigit() else word
