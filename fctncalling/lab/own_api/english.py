"""English: numbers and articles of nouns, forms of verbs, number words, dates, enumerations."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

MONTHS: Sequence[str] = (
    "January February March April May June July August September October November December".split()
)
NUMBERS: Sequence[str] = (
    "zero one two three four five six seven eight nine ten eleven twelve".split()
)
ORDINALS: Sequence[str] = "first second third fourth fifth sixth seventh eighth ninth tenth".split()

_IRREGULAR = {"person": "people", "child": "children", "man": "men", "woman": "women"}
_SINGULAR = {plural: singular for singular, plural in _IRREGULAR.items()} | {"calories": "calorie"}
_NO_PLURAL = {"news", "series", "status", "address", "bus", "class", "information", "equipment"}
_SAME_IN_BOTH = {*"news series information equipment stock money cash mph percent".split()}
_AS_YOU = r"u[ns]i|us[ae]|eu|one\b|u[ks]\b|uuid|ur[il]s?\b"  # vowels said as consonants
_VOWEL = rf"(?i:(?!{_AS_YOU})[aeiou]|hour|honest)"
_BASES = {"returns": "return", "does": "do", "has": "have", "is": "be", "goes": "go"}
_WITH_ES = ("sses", "shes", "ches", "xes", "zzes", "oes")


def plural(noun: str) -> str:
    """Return the plural of a noun or of a phrase that ends with one."""
    *front, word = noun.split(" ")
    if word in _SAME_IN_BOTH:
        found = word
    elif word in _IRREGULAR:
        found = _IRREGULAR[word]
    elif re.search(r"(?:s|x|z|ch|sh)$", word):
        found = f"{word}es"
    elif re.search(r"[^aeiou]y$", word):
        found = f"{word[:-1]}ies"
    else:
        found = f"{word}s"
    return " ".join([*front, found])


def singular(noun: str) -> str:
    """Return the singular of a noun, which may be one already."""
    *front, word = noun.split(" ")
    if word in _SINGULAR:
        found = _SINGULAR[word]
    elif word in _NO_PLURAL or re.search(r"(?:ss|us|is)$", word):
        found = word
    elif word.endswith("ies") and len(word) > 4:
        found = f"{word[:-3]}y"
    elif re.search(r"(?:sses|xes|ches|shes|zzes)$", word):
        found = word[:-2]
    else:
        found = word[:-1] if word.endswith("s") and len(word) > 1 else word  # not the letter S
    return " ".join([*front, found])


def is_plural(noun: str) -> bool:
    """Return whether a noun's form is a plural."""
    return singular(noun) != noun


def with_article(noun: str) -> str:
    """Return a noun with "a" or "an"; a plural has none."""
    if is_plural(noun) or noun.split(" ")[-1] in _SAME_IN_BOTH:
        return noun
    return f"{'an' if re.match(_VOWEL, noun) else 'a'} {noun}"


# a capital one at the beginning of a sentence alone: "Serie A in 2012"; a value may be quoted, or
# marked by a character of private use
_A = re.compile(rf"(?<!\d )\b(a|(?:^|(?<=[.?!] ))A) (?=[\ue000'\"“]{{0,2}}{_VOWEL})")
_AN = re.compile(
    r"\b([Aa])n (?=[bcdfgjklmnpqrstvwxyzBCDFGJKLMNPQRSTVWXYZ][a-z]"
    r"|(?i:users?|unique|uuid|ur[il]s?|one|european)\b)"
)
_AS_WRITTEN = "\ue010"
_ARTICLE = re.compile(r"\b([Aa]n?)(?= [A-Za-z])")


def correct_articles(text: str) -> str:
    """Return a text with "an" before vowels, and "a" before other letters."""
    return _AN.sub(r"\1 ", _A.sub(r"\1n ", text)).replace(_AS_WRITTEN, "")


def with_articles_as_written(text: str) -> str:
    """Return a text with marks on its articles, which are not to be corrected."""
    return _ARTICLE.sub(rf"\1{_AS_WRITTEN}", text)


def base_verb(word: str) -> str:
    """Return the base form of a verb that may be in the third person: "Returns" -> "return"."""
    low = word.lower()
    if low in _BASES:
        return _BASES[low]
    if low.endswith("ies") and len(low) > 4:
        return f"{low[:-3]}y"
    if low.endswith(_WITH_ES):
        return low[:-2]
    return low[:-1] if re.fullmatch(r"[a-z-]{2,}[^su]s", low) else low


_IRREGULAR_PAIRS = (
    "have/had send/sent put/put set/set get/fetched make/made give/given take/taken "
    "find/found read/read write/written run/run begin/begun undo/undone freeze/frozen "
    "unfreeze/unfrozen bring/brought buy/bought sell/sold hold/held pay/paid build/built "
    "rebuild/rebuilt reset/reset split/split do/done lend/lent rent/rented hide/hidden "
    "withdraw/withdrawn let/let cut/cut shut/shut choose/chosen forget/forgotten tell/told "
    "enrol/enrolled say/said see/seen show/shown draw/drawn redo/redone rerun/rerun bind/bound "
    "unbind/unbound leave/left keep/kept upsert/upserted lock/locked submit/submitted "
    "commit/committed transfer/transferred refer/referred cancel/cancelled plot/plotted "
    "log/logged ban/banned unban/unbanned unpin/unpinned untag/untagged unset/unset "
    "embed/embedded overwrite/overwritten rewrite/rewritten resend/resent teach/taught"
)
_PARTICIPLES = {
    verb: form for verb, _, form in (pair.partition("/") for pair in _IRREGULAR_PAIRS.split())
}


def participle(verb: str) -> str:
    """Return the past participle of a verb: "snooze" -> "snoozed"."""
    if verb in _PARTICIPLES:
        return _PARTICIPLES[verb]
    if verb.endswith("e"):
        return f"{verb}d"
    if re.search(r"[^aeiou]y$", verb):
        return f"{verb[:-1]}ied"
    if re.fullmatch(r"[^aeiou]*[aeiou][bdgmnpt]", verb):  # "stop", "tag": one syllable
        return f"{verb}{verb[-1]}ed"
    return f"{verb}ed"


def ordinal(number: int) -> str:
    """Return "1st", "22nd", "112th"."""
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def date_forms(day: datetime.date) -> list[str]:
    """Return the forms that people write a day in with its month's name, the commonest twice."""
    month, nth, year = f"{day:%B}", ordinal(day.day), day.year
    return [
        f"{month} {day.day}, {year}",
        f"{month} {day.day}, {year}",
        f"{month} {nth}, {year}",
        f"{day.day} {month} {year}",
        f"the {nth} of {month} {year}",
        f"the {nth} of {month}, {year}",
        f"{day:%A}, {month} {day.day}, {year}",
        f"{day:%A} the {nth} of {month} {year}",
        f"{day:%b} {day.day}, {year}",
        f"{day.day} {day:%b} {year}",
        f"{month} the {nth}, {year}",
    ]


_MONTH = "|".join(f"{month}|{month[:3]}" for month in MONTHS)
_NTH = rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?|(?P<word>{'|'.join(ORDINALS)})"
_DAYS = [
    re.compile(rf"\b{pattern}\b")
    for pattern in (
        rf"(?:{_NTH})(?: of)? (?P<month>{_MONTH}),? (?P<year>\d{{4}})",
        rf"(?P<month>{_MONTH}) (?:the )?(?:{_NTH}),? (?P<year>\d{{4}})",
        r"(?P<year>\d{4})[-/](?P<number>\d\d)[-/](?P<day>\d\d)",
    )
]
_BEFORE_DAY = re.compile(r"^(?:[A-Z][a-z]+day,? )?(?:the )?")


def days_in_text(text: str) -> Iterator[datetime.date]:
    """Yield the days that a text writes with their month's name, or the year first."""
    for pattern in _DAYS:
        yield from filter(None, map(_day, pattern.finditer(text)))


def _day(found: re.Match[str]) -> datetime.date | None:
    parts = found.groupdict()
    month = parts.get("number") or _SHORT_MONTHS.index(parts["month"][:3]) + 1
    day = parts["day"] or ORDINALS.index(parts["word"]) + 1
    try:
        return datetime.date(int(parts["year"]), int(month), int(day))
    except ValueError:  # February 31
        return None


_SHORT_MONTHS = [month[:3] for month in MONTHS]


@lru_cache(4096)
def read_day(text: str) -> datetime.date | None:
    """Return the day that a text is; None for any other text."""
    plain = _BEFORE_DAY.sub("", text)
    return next((_day(day) for each in _DAYS if (day := each.fullmatch(plain))), None)


@lru_cache(8192)
def spaced_words(name: str) -> str:
    """Return the words of a name in lower case: "contactEmail", "contact_email", "tasks.add"."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return re.sub(r"[^A-Za-z0-9']+", " ", parted).strip().lower()


def things_of_path(path: str) -> list[str]:
    """Return the words of each named part of a path, without versions and the like."""
    parts = [part for part in path.split("#")[0].split("/") if part and "{" not in part]
    return [spaced_words(e) for e in parts if not re.fullmatch(r"v?[\d.]+|api|rest|me", e)]


def enumerated(texts: Sequence[str], conjunction: str = " and ") -> str:
    """Return an enumeration: "a, b and c"; "" for none. A list in it wants a comma before "and"."""
    *front, last = texts or ("",)
    if conjunction == " and " and any(" and " in text or ", " in text for text in texts):
        conjunction = ", and "
    return f"{', '.join(front)}{conjunction}{last}" if front else last


def lower_first(text: str) -> str:
    """Return a text that begins with a small letter."""
    return text[:1].lower() + text[1:]
