"""Vocabulary: tables of words, and the words of names."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from fctncalling.lab.own_api.english import spaced_words

PREPOSITIONS = frozenset(
    "of for to from in on at by with without about into onto under over near around between after "
    "before until since via per as that which who whose where when while if than is are was were "
    "has have had can could would will must may and or but not".split()
)


@cache
def spoken_name(name: str) -> str:
    """Return the words of a name, abbreviations in full."""
    table = word_table("operations")["abbreviations"]
    return " ".join(table.get(word, word) for word in spaced_words(name).split())


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
def other_nouns(noun: str) -> tuple[str, ...]:
    """Return the other words that people have for a noun."""
    rows = map(split_phrases, word_table("operations")["nouns_alike"]["rows"])
    return tuple(other for row in rows if noun in row for other in row if other != noun)


def other_verbs(verb: str) -> tuple[str, ...]:
    """Return the other verbs that people have for one; who gets a thing need not order it."""
    return split_phrases(word_table("operations")["verbs_alike"].get(verb, ""))


@cache
def register_table_phrases(mood: str) -> dict[str, tuple[str, ...]]:
    """Return the wrappings of a mood by register, or the frame of a request by its places."""
    return {name: split_phrases(row) for name, row in word_table("registers")[mood].items()}
