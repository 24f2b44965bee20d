"""Remarks on what a request leaves unsaid: the usual value, what stays as it is, a thing's name."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from fctncalling.lab.own_api.kinds import MISSING
from fctncalling.lab.own_api.kinds.draw_value import value_pools
from fctncalling.lab.own_api.words.function_words import PEOPLE, FunctionWords
from fctncalling.lab.own_api.words.word_tables import register_table_phrases

CHANGES = frozenset("move update change edit set modify patch adjust reschedule amend".split())
USUAL_SHARE, UNCHANGED_SHARE, NAMED_SHARE = 0.1, 0.2, 0.07
_NAMING_KINDS = frozenset({"free_text", "person_name"})


def unsaid_remark(words: FunctionWords, said: Collection[str], rng: Random) -> str:
    """Return a clause about an optional value that goes unsaid; "" for none."""
    unsaid = [n for n, k in words.kinds.items() if not k.required and n not in said]
    table = register_table_phrases("unsaid")
    if words.verb in CHANGES:
        if unsaid and rng.random() < UNCHANGED_SHARE:
            return rng.choice(table["unchanged"]).replace("{l}", words.label(rng.choice(unsaid)))
        return ""
    usual = [n for n in unsaid if _has_usual_value(words, n)]
    if usual and rng.random() < USUAL_SHARE:
        return rng.choice(table["usual"]).replace("{l}", words.label(rng.choice(usual)))
    return ""


def _has_usual_value(words: FunctionWords, name: str) -> bool:
    kind = words.kinds[name]
    listed = {str(value).lower() for value in kind.values}
    return kind.default is not MISSING and kind.kind != "boolean" and not listed & {"usual"}


def with_optional_name(words: FunctionWords, noun: str, text: str, rng: Random) -> str:
    """Return a number now and then with the name of what it numbers: "The Copper Moon (B-204)".

    Where a parameter takes a name, none is put beside the number.
    """
    if rng.random() >= NAMED_SHARE or any(k.kind in _NAMING_KINDS for k in words.kinds.values()):
        return text
    table = value_pools()
    if set(noun.split()) & PEOPLE:
        name = f"{rng.choice(table['first'])} {rng.choice(table['last'])}"
    else:
        name = rng.choice(table[rng.choice(("work", "title", "organisation"))])
    return rng.choice((f"{name} ({text})", f"{text} ({name})", f"{name} (number {text})"))
