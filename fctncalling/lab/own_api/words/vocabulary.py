"""Vocabulary: tables of words, numbers and articles of nouns, base forms of verbs."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

_IRREGULAR = {"person": "people", "child": "children", "man": "men", "woman": "women"}
_SINGULAR = {plural: singular for singular, plural in _IRREGULAR.items()}
_NO_PLURAL = {"news", "series", "status", "address", "bus", "class", "information", "equipment"}
_SAME_IN_BOTH = {"news", "series", "information", "equipment", "stock", "money", "cash"}
_VOWEL = re.compile(r"(?!u[ns]i|eu|one\b|us[ae]|uuid)[aeiou]|hour|honest", re.IGNORECASE)
_BASES = {"returns": "return", "does": "do", "has": "have", "is": "be", "goes": "go"}
_WITH_ES = ("sses", "shes", "ches", "xes", "zzes", "oes")
PREPOSITIONS = frozenset(
    "of for to from in on at by with without about into onto under over near around between after "
    "before until since via per as that which who whose where when while if than is are was were "
    "has have had can could would will must may and or but not".split()
)


@cache
def spaced_words(name: str) -> str:
    """Return the words of a name in lower case: "contactEmail", "contact_email", "tasks.add"."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return re.sub(r"[^A-Za-z0-9']+", " ", parted).strip().lower()


@cache
def spoken_name(name: str) -> str:
    """Return the words of a name, abbreviations in full."""
    table = word_table("operations")["abbreviations"]
    return " ".join(table.get(word, word) for word in spaced_words(name).split())


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
        found = word[:-1] if word.endswith("s") else word
    return " ".join([*front, found])


def is_plural(noun: str) -> bool:
    """Return whether a noun's form is a plural."""
    return singular(noun) != noun


def with_article(noun: str) -> str:
    """Return a noun with "a" or "an"; a plural goes without."""
    if is_plural(noun) or noun.split(" ")[-1] in _SAME_IN_BOTH:
        return noun
    return f"{'an' if _VOWEL.match(noun) else 'a'} {noun}"


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
    "say/said see/seen show/shown draw/drawn redo/redone rerun/rerun bind/bound "
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


def correct_articles(text: str) -> str:
    """Return a text with "an" before vowels, and "a" before other letters."""
    text = re.sub(r"\b([Aa]) (?=[aeiouAEIOU])(?=(\w+))", _article, text)
    return re.sub(r"\b([Aa])n (?=[bcdfgjklmnpqrstvwxyzBCDFGJKLMNPQRSTVWXYZ][a-z])", r"\1 ", text)


def _article(found: re.Match[str]) -> str:
    return f"{found[1]}{'n' if _VOWEL.match(found[2]) else ''} "


@cache
def word_table(name: str) -> dict[str, Any]:
    """Return a table of this folder."""
    return tomllib.loads(
        files("fctncalling.lab.own_api.words").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    )


def split_phrases(text: str) -> tuple[str, ...]:
    """Return the phrases of a row, which "|" parts."""
    return tuple(each.strip() for each in text.split("|") if each.strip())


@cache
def register_table_phrases(mood: str) -> dict[str, tuple[str, ...]]:
    """Return the wrappings of a mood by register, or the frame of a request by its places."""
    return {name: split_phrases(row) for name, row in word_table("registers")[mood].items()}
