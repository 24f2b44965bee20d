"""Clues to the kind of a value: the words of a name, and what a description says."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple


class InferredKind(NamedTuple):
    """Kind that words mean, with its topic."""

    kind: str
    topic: str = ""


MAX_BOUND = 1e30
_DATES = (
    r"date|day|birthday|dob|since|until|deadline|due|arrival|departure|expiry|check in|check out"
)
_TIMES = r"time|hour|start|end|begin|opening|closing"
_COUNTS = r"id|number|no|code"


def infer_kind_from_words(name: str, description: str) -> tuple[InferredKind | None, bool]:
    """Return the kind that words mean, and whether the name alone says so.

    The head noun counts: the name's last words first, then the description's first clause; "name"
    alone is a person's where that clause speaks of one.
    """
    words = name_words(name)
    head = re.split(r"[.,;:(]", description.lower())[0]
    of_name = _moment(words) or _in_table(words, last=True)
    if words.endswith("name") and of_name is None:
        of_head = _in_table(f"{words} {head}")
        named = of_head if of_head and of_head.kind in ("person_name", "free_text") else None
        return named or InferredKind("free_text", "title"), not head
    if of_name is not None:
        return of_name, not _says(head, of_name, words)
    of_head = _moment(head) or _in_table(head)
    return of_head, False


def name_words(name: str) -> str:
    """Return a name's words, in lower case: "contactEmail", "contact_email" -> "contact email"."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return re.sub(r"[^A-Za-z0-9]+", " ", spaced).strip().lower()


@cache
def kind_tables() -> dict[str, Any]:
    """Return the tables of words, forms, shapes and units that tell kinds."""
    table = files("fctncalling.lab.own_api.kinds").joinpath("words_of_kinds.toml")
    return tomllib.loads(table.read_text(encoding="utf-8"))


def _in_table(words: str, *, last: bool = False) -> InferredKind | None:
    end = "$" if last else r"\b"
    for meant, pattern in kind_tables()["rows"]:
        if re.search(rf"\b(?:{pattern}){end}", words):
            return InferredKind(*meant.split())
    return _in_table(words) if last and " " in words else None


def _moment(words: str) -> InferredKind | None:
    if re.search(r"\b(?:datetime|timestamp|moment|date time|(?:[a-z]+ed|when) at)$", words):
        return InferredKind("datetime")
    if re.search(rf"\b(?:{_DATES})$", words) or re.search(r"\bdate\b", words):
        return InferredKind("date")
    return InferredKind("time") if re.search(rf"\b(?:{_TIMES})$", words) else None


def _says(head: str, meant: InferredKind, words: str) -> bool:
    """Return whether a description says the same as the name."""
    found = _moment(head) or _in_table(head)
    return (found is not None and found.kind == meant.kind) or (words in head and bool(head))


_CENTS = {"EUR cents": r"euro|eur\b|€", "GBP cents": r"pound|pence|gbp|sterling"}
_NUMBER_WORDS: Sequence[str] = (
    "zero one two three four five six seven eight nine ten eleven twelve".split()
)
_NUMBER = r"(-?\d+(?:\.\d+)?)"
_EXAMPLE = re.compile(
    r"(?:such as|e\.g\.,?|for example:?|for instance:?|example:|like)\s+"
    r"(?:\"([^\"]+)\"|'([^']+)'|`([^`]+)`|([^\s,;()]+(?:[^\s,;().]|\.(?=\S))))",
    re.IGNORECASE,
)
_LIST = re.compile(
    r"(?:one of|either|any of|allowed(?: values)?(?: are)?|possible values(?: are)?|values|:|\()"
    r":?\s+((?:[\"'`]?[\w-]+[\"'`]?(?:\s*\|\s*|,\s*(?:or\s+|and\s+)?|\s+or\s+|\s+and\s+))+"
    r"[\"'`]?[\w-]+[\"'`]?)(?=[.;)]|\s*$)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class DescriptionClues:
    """Clues of a description to the values of its parameter."""

    values: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    examples: tuple[str, ...] = ()
    moment: str = ""  # date, time, datetime, month, year
    format: str = ""
    unit: str = ""
    pattern: str | None = None
    ordered: bool | None = None


@lru_cache(maxsize=4096)
def description_clues(text: str, name: str) -> DescriptionClues:
    """Return the clues of a description, and the unit that the name may end with."""
    low, high = (None if each is None or abs(each) > MAX_BOUND else each for each in _bounds(text))
    moment, form = next(
        ((k, f) for p, k, f in kind_tables()["forms"] if re.search(p, text)), ("", "")
    )
    if form == "%d.%m.%Y" and "DD/MM" in text:
        form = "%d/%m/%Y"
    if "T" in form and re.search(r"YYYY-MM-DD HH", text):
        form = form.replace("T", " ")
    return DescriptionClues(
        _values(text),
        low,
        high,
        () if moment else _examples(text),
        moment,
        form,
        _unit(text, name),
        _pattern(text),
        _ordered(text),
    )


def _values(text: str) -> tuple[str, ...]:
    """Return a closed list: "fiction, crime or science" after a colon or "one of"."""
    for found in _LIST.finditer(text):
        items = re.split(r"\s*\|\s*|,\s*(?:or\s+|and\s+)?|\s+or\s+|\s+and\s+", found[1])
        items = [each.strip("\"'`") for each in items]
        opener = found[0][: found.start(1) - found.start()].strip().lower()
        sure = "of" in opener or opener.startswith(("allowed", "possible", "either"))
        if (sure or len(items) > 2 or "|" in found[1]) and not any(map(str.isdigit, items)):
            before = text[: found.start()].lower()
            if not re.search(r"such as|e\.g|for example|like|including|form$", before[-25:]):
                return tuple(dict.fromkeys(items))
    described = re.findall(r"(?:^|[,;:]\s|\bor\s|\band\s)([a-z][\w-]*) (?:\(|is |= )", text)
    return tuple(described) if len(described) > 2 else ()


def _bounds(text: str) -> tuple[float | None, float | None]:
    plain = re.sub(r"\d{4}-\d\d(-\d\d)?|\d\d?:\d\d", "", text.lower())
    for number, word in enumerate(_NUMBER_WORDS):
        plain = re.sub(rf"\b{word} (?=(?:to|or|at) )|(?<= to ){word}\b", f"{number} ", plain)
    if found := re.search(
        rf"(?<![\w-]){_NUMBER}\s*(?:to|-|\u2013|and|\.\.)\s*{_NUMBER}(?![\w-])", plain
    ):
        low, high = float(found[1]), float(found[2])
        return (low, high) if low < high else (None, None)
    low_found = re.search(rf"(?:at least|minimum(?: of)?|from|not less than|>=)\s*{_NUMBER}", plain)
    high_found = re.search(
        rf"(?:at most|maximum(?: of)?|up to|no more than|not more than|<=|max\.?)\s*{_NUMBER}",
        plain,
    )
    low_bound = float(low_found[1]) if low_found else None
    high_bound = float(high_found[1]) if high_found else None
    if "positive" in plain or "greater than 0" in plain or "more than zero" in plain:
        low_bound = max(low_bound or 1.0, 1.0)
    return low_bound, high_bound


def _examples(text: str) -> tuple[str, ...]:
    found = [next(each for each in match if each) for match in _EXAMPLE.findall(text)]
    if not found and (code := re.search(r"[,:] ([A-Z]{1,4}-?\d{2,})\.?$", text)):
        found = [code[1]]  # "Tour number, T-310"
    return tuple(each.strip() for each in found if each.strip())


def _unit(text: str, name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
    if {"per", "cubic", "square"} & {*words[:-1]}:
        return ""  # of a price, an area, a volume: said without
    from_name = words[-1] if len(words) > 1 else ""
    units: dict[str, str] = kind_tables()["units"]
    if from_name in ("cents", "cent", "pence") or re.search(r"\bin (?:[a-z]+ )?cents\b", text):
        return next((u for u, p in _CENTS.items() if re.search(p, text.lower())), "USD cents")
    for unit, pattern in units.items():
        if from_name and re.fullmatch(pattern, from_name):
            return unit
    head = text.lower()
    for unit, pattern in units.items():
        if re.search(rf"\b(?:in|of|many|much|as)\s+(?:{pattern})\b", head):
            return unit
    return next((u for u, p in units.items() if re.match(rf"(?:{p})\b", head)), "")


def _pattern(text: str) -> str | None:
    low = text.lower()
    counts = "|".join(_NUMBER_WORDS)
    if found := re.search(rf"\b(\d+|{counts})[ -](digit|letter|character)s?\b", low):
        is_word = found[1] in _NUMBER_WORDS
        count = _NUMBER_WORDS.index(found[1]) if is_word else int(found[1])
        letters = {"digit": "[0-9]", "letter": "[A-Z]", "character": "[A-Z0-9]"}[found[2]]
        return f"^{letters}{{{count}}}$" if 0 < count <= 40 else None
    return None


def _ordered(text: str) -> bool | None:
    low = text.lower()
    if "any order" in low or "order does not matter" in low:
        return False
    in_turn = re.search(r"\b(?:in (?:this |the )?order|ordered|sequence|in turn)\b", low)
    return True if in_turn else None
