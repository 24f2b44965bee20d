"""Clues to the kind of a value: the words of a name and of a description."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from fctncalling.lab.own_api.english import NUMBERS, spaced_words


class InferredKind(NamedTuple):
    """Kind that words mean, with its topic."""

    kind: str
    topic: str = ""


MAX_BOUND = 1e30
MOST_READ = 300  # characters of a description: examples further on are of other things
_DATES = (
    r"dates?|day|birthday|dob|since|until|deadline|due|arrival|departure|expiry|check in|check out"
)
_TIMES = r"time|hour|start|end|begin|opening|closing"


def infer_kind_from_words(name: str, description: str) -> tuple[InferredKind | None, bool]:
    """Return the kind that words mean, and whether the name alone says so.

    The head noun counts: the name's last words first, then that of the description's first clause;
    "name" alone is a person's where that clause speaks of one.
    """
    words = spaced_words(name)
    head = head_noun(description)
    of_name = _moment(words) or _in_table(words)
    if re.search(r"\bname$", words) and of_name is None:
        clause = re.split(r"[.,;:(]", description.lower())[0]
        owner = re.search(r"\bnames? (?:of|for) (?:the |an? |your |this )?(.+)", clause)
        for each in (re.sub(r" ?name$", "", words), owner[1] if owner else ""):
            named = _in_table(head_noun(each))
            if named and named.kind in ("person_name", "place"):
                return named, not clause
            if named and named.topic in ("organisation", "thing", "animal", "work", "food"):
                return named, not clause
        return InferredKind("free_text", "title"), not clause
    of_head = _moment(head) or _in_table(head)
    if of_name and of_head and of_name.kind == "person_name" and of_head.kind in _ADDRESSES:
        return of_head, False
    if of_name is not None:
        return of_name, not _says(head, of_name, words)
    return of_head, False


_ADDRESSES = ("email", "phone", "url", "identifier")
"""Kinds of what stands for a person: recipients that are e-mail addresses, an owner's number."""


def first_clause(description: str) -> str:
    """Return the first sentence of a description, in lower case."""
    return re.split(r"\.\s|\n", description.lower(), maxsplit=1)[0][:200]


_HEAD_END = re.compile(
    r"[.,;:()]| (?:of|for|to|that|which|who|whose|in|on|at|with|by|from|used|where|when|you|is|are|"
    r"must|should|will|can|may|as|associated|containing|against|whether|if|assigned|about|"
    r"within|identifying|specifying|describing|indicating|representing|under)\b"
)


def head_noun(text: str) -> str:
    """Return the noun phrase that a text begins with: "email address" of "The email address of"."""
    if re.match(
        r"\W*(?:whether|if|when|how|used|set|specif|indicat|determin|true|only|filter)", text, re.I
    ):
        return ""
    head = _HEAD_END.split(re.sub(r"[`*\"]", "", text.lower()), maxsplit=1)[0]
    head = re.sub(r"^\s*(?:(?:the|an?|your|its|this|their|new|optional|unique|full)\s+)*", "", head)
    return head.strip()


@cache
def kind_tables() -> dict[str, Any]:
    """Return the tables of words, forms, shapes and units that tell kinds."""
    table = files("fctncalling.lab.own_api.kinds").joinpath("words_of_kinds.toml")
    return tomllib.loads(table.read_text(encoding="utf-8"))


@lru_cache(maxsize=8192)
def _in_table(words: str) -> InferredKind | None:
    """Return the kind that the last words mean, else the words before "of", "for" and the like."""
    for meant, pattern in kind_tables()["rows"]:
        if re.search(rf"\b(?:{pattern})$", words):
            return InferredKind(*meant.split())
    front = re.split(r" (?:of|for|to|in|from|at|on|by) ", words, maxsplit=1)[0]
    return _in_table(front) if front != words else None


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
_NUMBER = r"(-?\d+(?:\.\d+)?)"
_EXAMPLE = re.compile(
    r"(?:such as|e\.g\.,?|for example:?,?|for instance:?|example(?: value)?:|like)\s+"
    r"(?:\"([^\"]+)\"|'([^']+)'|`([^`]+)`|\*\*([^*]+)\*\*|(-?\d+\.\d+,\s?-?\d+\.\d+)|"
    r"((?=[^\s,;()]*[\d_])[^\s,;()]+(?:[^\s,;().]|\.(?=\S))|"
    r"(?-i:[A-Z])[\w-]+(?=[,.;)]|$| or| and)))",
    re.IGNORECASE,
)
_LIST = re.compile(
    r"(?:one of|either|any of|allowed(?: values)?(?: are)?|possible values(?: are)?|values|:|\()"
    r":?(?:(?<=\()|\s+)((?:[\"'`]?[\w-]+[\"'`]?(?:\s*\|\s*|,\s*(?:or\s+|and\s+)?|\s+or\s+|\s+and\s+))+"
    r"[\"'`]?[\w-]+[\"'`]?)(?=[.;)]|\s*$)",
    re.IGNORECASE,
)
_MARKED = r"(?:`[^`\s]{1,40}`|\"[^\"\s]{1,40}\"|'[^'\s]{1,40}'|\*\*[^*\s]{1,40}\*\*)"
_MARKED_LIST = re.compile(
    rf"(?:^|[:(]\s*|\b(?:values?|one of|either|options?|allowed|be|is|are|includes?)\b[:,]?\s*"
    rf"(?:are|is|includes?|of)?:?\s*)(?:either |one of )?"
    rf"({_MARKED}(?:\s*(?:,\s*(?:or|and)?|/|\||\bor|\band)\s*{_MARKED})+)",
    re.IGNORECASE,
)
_NO_LIST = re.compile(r"(?:such as|e\.g\.?,?|for example|like|including|form)[^.]{0,12}$")


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
    ordered: bool | None = None


@lru_cache(maxsize=4096)
def description_clues(text: str, name: str) -> DescriptionClues:
    """Return the clues of a description, and the unit that the name may end with."""
    low, high = (None if each is None or abs(each) > MAX_BOUND else each for each in _bounds(text))
    moment, form = next(
        ((k, f) for p, k, f in kind_tables()["forms"] if re.search(p, text)), ("", "")
    )
    return DescriptionClues(
        _values(text),
        low,
        high,
        () if moment else _examples(text),
        moment,
        form,
        _unit(text, name),
        _ordered(text),
    )


def _values(text: str) -> tuple[str, ...]:
    """Return a closed list: "fiction, crime or science" after a colon or "one of"; `a` or `b`."""
    for found in _MARKED_LIST.finditer(text):
        if not _NO_LIST.search(text[: found.start(1)].lower()[-30:]):
            items = [each.strip("`\"'*") for each in re.findall(_MARKED, found[1])]
            return tuple(dict.fromkeys(items))
    for found in _LIST.finditer(text):
        items = re.split(r"\s*\|\s*|,\s*(?:or\s+|and\s+)?|\s+or\s+|\s+and\s+", found[1])
        items = [each.strip("\"'`") for each in items]
        opener = found[0][: found.start(1) - found.start()].strip().lower()
        sure = "of" in opener or opener.startswith(("allowed", "possible", "either"))
        shouted = all(map(str.isupper, items))
        if (sure or shouted or len(items) > 2 or "|" in found[1]) and not any(
            map(str.isdigit, items)
        ):
            before = text[: found.start()].lower()
            if not _NO_LIST.search(before[-25:]):
                return tuple(dict.fromkeys(items))
    described = re.findall(r"(?:^|[,;:]\s|\bor\s|\band\s)([a-z][\w-]*) (?:\(|is |= )", text)
    return tuple(described) if len(described) > 2 else ()


def _bounds(text: str) -> tuple[float | None, float | None]:
    plain = re.sub(r"\d{4}-\d\d(-\d\d)?|\d\d?:\d\d|[*`_]", "", text.lower())
    for number, word in enumerate(NUMBERS):
        plain = re.sub(rf"\b{word} (?=(?:to|or|at) )|(?<= to ){word}\b", f"{number} ", plain)
    if found := re.search(
        rf"(?<![\w-]){_NUMBER}\s*(?:to|-|\u2013|and|\.\.)\s*{_NUMBER}(?![\w-])", plain
    ):
        low, high = float(found[1]), float(found[2])
        return (low, high) if low < high else (None, None)
    low_found = re.search(
        rf"(?:at least|minimum(?: (?:value|of|is))*:?|from|not less than|>=)\s*{_NUMBER}", plain
    )
    high_found = re.search(
        rf"(?:at most|maximum(?: (?:value|number|limit|of|is))*:?|up to|no more than|not more than|"
        rf"<=|max\.?)\s*{_NUMBER}",
        plain,
    )
    low_bound = float(low_found[1]) if low_found else None
    high_bound = float(high_found[1]) if high_found else None
    if "positive" in plain or "greater than 0" in plain or "more than zero" in plain:
        low_bound = max(low_bound or 1.0, 1.0)
    return low_bound, high_bound


def _examples(text: str) -> tuple[str, ...]:
    found = [next(each for each in match if each) for match in _EXAMPLE.findall(text[:MOST_READ])]
    return tuple(each.strip() for each in found if each.strip())


def _unit(text: str, name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
    if {"per", "cubic", "square"} & {*words[:-1]}:
        return ""  # of a price, an area, a volume: said without
    from_name = words[-1] if len(words) > 1 and words[-1] not in ("month", "day", "year") else ""
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


def _ordered(text: str) -> bool | None:
    low = text.lower()
    if "any order" in low or "order does not matter" in low:
        return False
    in_turn = re.search(r"\b(?:in (?:this |the )?order|ordered|sequence|in turn)\b", low)
    return True if in_turn else None
