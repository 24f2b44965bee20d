"""Tables of words, read once: acts, clauses, registers, words of values, requests from outside."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


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
