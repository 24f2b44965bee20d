"""Kinds of values like the examples that a document gives."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind
from fctncalling.lab.own_api.kinds.clues import infer_kind_from_words, kind_tables
from fctncalling.lab.own_api.kinds.pattern_text import is_in_words
from fctncalling.lab.own_api.kinds.scalar_kind import parse_moment


def example_texts(schema: Mapping[str, Any]) -> list[str]:
    """Return the examples that a person would write: short ones, on one line, without markup."""
    texts = [html.unescape(each) for each in schema.get("examples", ()) if isinstance(each, str)]
    texts = [each.strip().strip('"') for each in texts]
    return [each for each in texts if 1 < len(each) <= LONGEST_EXAMPLE and not _MARKUP.search(each)]


LONGEST_EXAMPLE = 60
_MARKUP = re.compile(r"[<>{}\n]|^\W*$")
_FOR_MACHINES = re.compile(r"[=?&|\\\"]|%\d\d")


def kind_like_examples(
    base: ArgumentKind, name: str, examples: Sequence[str], evidence: str
) -> ArgumentKind:
    """Return the kind of values like these: of their shape, else of their name's topic."""
    if shaped := kind_of_shape(base, examples, evidence):
        return shaped
    own = replace(base, examples=tuple(examples), evidence=evidence)
    meant, _ = infer_kind_from_words(name, base.description)
    if any(map(_FOR_MACHINES.search, examples)):  # a query, an expression: nobody's own words
        if meant is not None and meant.kind == "free_text":
            return replace(base, kind="free_text", topic=meant.topic, evidence="name")
        return replace(own, kind="free_text" if base.required else "unknown", topic="example")
    in_words = all(map(is_in_words, examples))
    if meant is not None and meant.kind == "identifier" and in_words and evidence != "examples":
        return replace(base, kind="identifier", guessed=True, evidence="name")
    if meant is not None and meant.kind in ("phone", "email", "url", "date", "time", "datetime"):
        if meant.kind in ("phone", "email", "url"):
            return replace(own, kind=meant.kind)
        shapes = (kind_of_shape(base, [each], evidence) for each in examples)
        moment = next(filter(None, shapes), None)
        form = next((form for form in _DATE_FORMS if _all_written(examples, form)), None)
        written = form and replace(own, kind="date", format=form)
        return moment or written or replace(own, kind="free_text", topic="example")
    is_word = meant is not None and meant.kind in ("person_name", "place", "free_text")
    digits = all(re.search(r"\d", each) for each in examples)
    is_code = all(" " not in each and len(each) > 1 and not is_in_words(each) for each in examples)
    if is_code and (digits or not is_word):
        return replace(own, kind="identifier")
    is_numbered = meant is not None and meant.kind == "identifier" and evidence == "description"
    if is_numbered and digits:
        return replace(own, kind="identifier")
    kind = meant.kind if meant and meant.kind in ("person_name", "place", "free_text") else ""
    if kind:
        return replace(own, kind=kind, topic=meant.topic if meant else "")
    if all(re.fullmatch(r"[A-Z][a-z]+", each) for each in examples) and evidence == "description":
        return replace(own, kind="free_text", topic="proper")  # a thing's own name, such as Birch
    return replace(own, kind="free_text", topic="example")


_DATE_FORMS = ("%Y%m%d", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%B %d, %Y", "%d %B %Y")


def _all_written(examples: Sequence[str], form: str) -> bool:
    return all(parse_moment(each, form) for each in examples)


def kind_of_shape(
    base: ArgumentKind, examples: Sequence[str], evidence: str
) -> ArgumentKind | None:
    """Return the kind that all examples have the shape of."""
    for pattern, kind, form in kind_tables()["shapes"] if examples else ():
        if all(re.fullmatch(pattern, each, re.IGNORECASE) for each in examples):
            shape = replace(base, kind=kind, examples=tuple(examples), evidence=evidence)
            return replace(shape, **{"topic" if kind == "standard" else "format": form})
    return None
