"""Clauses: the ways in which a request says values beside its phrase.

One value alone, both ends of a span together, or a remark on what goes unsaid.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, NamedTuple

from fctncalling.lab.own_api.kinds import MISSING, ArgumentKind
from fctncalling.lab.own_api.kinds.scalar_kind import may_name_creator, parse_moment
from fctncalling.lab.own_api.kinds.value_tables import value_table
from fctncalling.lab.own_api.words.function_words import PEOPLE, FunctionWords
from fctncalling.lab.own_api.words.spoken_values import (
    date_in_form,
    enum_value_clauses,
    ordinal,
    spoken_value,
)
from fctncalling.lab.own_api.words.vocabulary import (
    PREPOSITIONS,
    register_table_phrases,
    singular,
    spaced_words,
    split_phrases,
    word_table,
)

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
    if set(noun.split()) & PEOPLE:
        name = f"{rng.choice(value_table('first'))} {rng.choice(value_table('last'))}"
    else:
        name = rng.choice(value_table(rng.choice(("work", "title", "organisation"))))
    return rng.choice((f"{name} ({text})", f"{text} ({name})", f"{name} (number {text})"))


LABELLED = ("{l} {v}", "{l}: {v}", "with {l} {v}", "{l} is {v}")
_SORT_OF = re.compile(r"(?:sort|kind|type|class|size) of (?:the |an? )?([a-z]+)\b")
SORT_SHARE = 0.35  # of listed values that say which sort of a thing it is: "a student card"
ASKING = ("what", "who", "when", "where", "how", "why", "which")  # a label that is no noun


class SaidValue(NamedTuple):
    """A value in words: a clause behind the phrase, or a sentence of its own."""

    text: str
    is_sentence: bool


@dataclass(frozen=True)
class ClauseRow:
    """One row of the table of clauses."""

    name: re.Pattern[str] | None
    about: re.Pattern[str] | None
    kinds: frozenset[str]
    forms: tuple[str, ...]
    sentences: tuple[str, ...]
    literal: str  # how a text is written: plain, title, quoted

    def fits(self, name: str, kind: ArgumentKind) -> bool:
        """Return whether it is for a parameter."""
        if self.kinds and kind.kind not in self.kinds:
            return False
        words = spaced_words(name)
        if self.name and not self.name.search(words):
            return False
        return not self.about or bool(self.about.search(f"{words} {kind.description.lower()}"))


@cache
def _rows() -> tuple[ClauseRow, ...]:
    return tuple(
        ClauseRow(
            re.compile(rf"\b(?:{row['name']})\b") if "name" in row else None,
            re.compile(row["about"]) if "about" in row else None,
            frozenset(row.get("kinds", "").split()),
            split_phrases(row["forms"]),
            split_phrases(row.get("sentences", "")),
            row.get("literal", ""),
        )
        for row in word_table("clauses")["clause"]
    )


def clause_row_of(name: str, kind: ArgumentKind) -> ClauseRow | None:
    """Return the first row of the table that is for a parameter; None where none is."""
    return next((row for row in _rows() if row.fits(name, kind)), None)


def verbatim_value(words: FunctionWords, name: str, value: Any, rng: Random) -> SaidValue:
    """Return one way to say a parameter's value beside the phrase."""
    kind = words.kinds[name]
    if isinstance(value, bool):
        return said_flag(words, name, value, rng)
    sort_of = _SORT_OF.match(kind.description.lower()) if kind.kind == "enum" else None
    if sort_of and rng.random() < SORT_SHARE:
        form = rng.choice(("with a", "as a", "- a", "so that it is a"))
        form = f"{form} {{v}} {singular(sort_of[1])}{' -' if form == '- a' else ''}"
        return _filled(words, name, value, form, False, rng, "")
    own = _of_listed_value(kind, value, rng)
    if own is not None:
        return own
    row = clause_row_of(name, kind)
    labelled = row is None or rng.random() < (0.12 if row.forms else 0.5)
    label = words.label(name)
    if name == words.primary and rng.random() < 0.8:
        text = spoken_value_with_noun(words, name, value, rng)
        return SaidValue(rng.choice(("{}", "for {}", "- {} -", "it's {}")).format(text), False)
    if labelled or row is None:
        forms: Sequence[str] = LABELLED[:3]
        if label in ASKING:
            forms = ("- {v} -", "namely {v}", "I mean {v}")
        elif kind.kind == "quantity_with_unit" and label in (kind.unit, singular(kind.unit)):
            forms = ("for {v}", "{v}", "- {v} -")
        elif kind.kind == "integer" and _is_counted(label):
            label = singular(label) if value == 1 else label
            forms = ("{v} {l}", "that is {v} {l}", "{v} {l} in all")
        elif kind.kind == "identifier":
            forms = ("{lv}", "- {lv} -")
        elif kind.kind == "enum" and row is None:
            forms = ("{l} {v}", "with {l} {v}", "the {v} {l}", "{v} {l}", "{l}: {v}")
        return _filled(words, name, value, rng.choice(forms), False, rng, label)
    sentence = bool(row.sentences) and rng.random() < 0.3
    form = rng.choice(row.sentences if sentence else row.forms)
    return _filled(words, name, value, form, sentence, rng, label)


def _is_counted(label: str) -> bool:
    return label.endswith("s") and not label.startswith(("min", "max"))


def _of_listed_value(kind: ArgumentKind, value: Any, rng: Random) -> SaidValue | None:
    if kind.kind != "enum":
        return None
    clauses, sentences = enum_value_clauses(kind, value)
    count = len(clauses) + len(sentences)
    plain = 0.1 if sentences and not clauses else 0.4
    if not count or rng.random() < plain:
        return None
    index = rng.randrange(count)
    if index < len(clauses):
        return SaidValue(clauses[index], False)
    return SaidValue(sentences[index - len(clauses)], True)


def _filled(
    words: FunctionWords,
    name: str,
    value: Any,
    form: str,
    sentence: bool,
    rng: Random,
    label: str,
) -> SaidValue:
    kind = words.kinds[name]
    row = clause_row_of(name, kind)
    text = spoken_value(kind, value, rng)
    text = with_optional_quotes(kind, text, row.literal if row else "", rng)
    if "{lv}" in form:
        form = form.replace("{lv}", spoken_value_with_noun(words, name, value, rng))
    if "{o}" in form:
        form = form.replace("{o}", ordinal(int(value)) if isinstance(value, int) else text)
    found = form.replace("{l}", label).replace("{v}", text)
    found = re.sub(r"\b(\w+) \1\b", r"\1", found) if label else found
    return SaidValue(found, sentence)


def with_optional_quotes(kind: ArgumentKind, text: str, literal: str, rng: Random) -> str:
    """Return a text's value with or without quotation marks, as people write such a text."""
    if kind.kind != "free_text" or kind.topic == "proper":
        return text
    literal = literal or ("quoted" if kind.topic in ("note", "message", "query") else "title")
    quotes = {"plain": 0.1, "title": 0.35, "quoted": 0.6}[literal]
    if rng.random() >= quotes:
        return text
    mark = '"' if rng.random() < 0.7 or "'" in text else "'"
    return f"{mark}{text}{mark}"


def spoken_value_with_noun(words: FunctionWords, name: str, value: Any, rng: Random) -> str:
    """Return a number with or without the noun of what it numbers: "loan L-301"."""
    kind = words.kinds[name]
    row = clause_row_of(name, kind)
    text = with_optional_quotes(
        kind, spoken_value(kind, value, rng), row.literal if row else "", rng
    )
    label = words.label(name)
    if name == words.amount and not kind.unit and _is_counted(label):
        return f"{text} {singular(label) if value == 1 else label}"
    if kind.kind == "enum" and name == words.primary:
        noun = words.thing_nouns()[0]
        return rng.choice((f"the {text} {noun}", f"{noun} {text}", f"the {text}", f"the {text}"))
    if kind.topic == "query" and may_name_creator(kind) and value in value_table("last"):
        things = words.filled("{ns}")
        return rng.choice((f"something by {value}", f"anything by {value}", f"{things} by {value}"))
    if kind.kind != "identifier" or isinstance(value, list):
        return text
    nouns = words.thing_nouns() if name == words.primary else words.nouns(name)[:2]
    needs_noun = str(value).isdigit() and len(str(value)) < 5
    if nouns and not needs_noun:
        named = with_optional_name(words, nouns[0], text, rng)
        if named != text:
            return named
    if not nouns or (not needs_noun and rng.random() < 0.5):
        return text
    noun = rng.choice(nouns)
    determiner = rng.choice(("", "", "", "the "))
    if noun.partition(" ")[0] in PREPOSITIONS:  # "to postcode" takes no article
        determiner = ""
    return f"{determiner}{noun} {text}"


# --- flags -----------------------------------------------------------------------------------


def said_flag(words: FunctionWords, name: str, value: bool, rng: Random) -> SaidValue:
    """Return one way to say a flag: from the table, from its name, from its description."""
    forms = _flag_rows(name, value) + _described_flag(words, name, value)
    text = rng.choice(forms)
    return SaidValue(text.removeprefix("~"), not text.startswith("~"))


def _flag_rows(name: str, value: bool) -> list[str]:
    table = word_table("value_words")["flags"]
    found: list[str] = []
    for word in spaced_words(name).split():
        if word in table:
            found += split_phrases(table[word]["yes" if value else "no"])
    return found


def _described_flag(words: FunctionWords, name: str, value: bool) -> list[str]:
    spoken_name = spaced_words(name)
    first, _, rest = spoken_name.partition(" ")
    described = words.kinds[name].description.split(". ")[0].rstrip(".").strip()
    low = described[:1].lower() + described[1:]
    found: list[str] = []
    if first in ("include", "with", "show", "has", "need", "needs", "add", "return") and rest:
        rest = rest.replace(" only", "")
        found += [f"~with {rest}", f"~{rest} included"] if value else [f"~without {rest}"]
    if first == "only" and rest and value:
        found.append(f"~only the {rest} ones")
    if told := re.match(r"whether to (.+)", low):
        found += [told[1], f"~and {told[1]}"] if value else [f"don't {told[1]}"]
    elif told := re.match(r"(?:whether|if|true if|set to true if|true when) (.+)", low):
        found += _clause_forms(told[1], value)
    elif value and re.match(r"[a-z]+ (?!of|in|at)", low) and len(low.split()) > 2:
        found.append(low)
    if not found:
        found.append(f"~{spoken_name}: {'yes' if value else 'no'}")
    return found


def _clause_forms(clause: str, value: bool) -> list[str]:
    clause = clause.split(",")[0]
    if value:
        return [clause]
    for verb, without in (
        (" is ", " is not "),
        (" are ", " are not "),
        (" has to ", " need not "),
        (" was ", " was not "),
        (" can ", " cannot "),
        (" should ", " should not "),
        (" came back ", " did not come back "),
    ):
        if verb in clause:
            return [clause.replace(verb, without, 1)]
    return []


_PAIRS = [
    tuple(pair.split("/"))
    for pair in (
        "start/end, begin/end, from/to, from/until, since/until, after/before, check in/check out, "
        "checkin/checkout, min/max, first/last, open/close, opens/closes, pickup/return"
    ).split(", ")
]
_WITH_ORDER = frozenset("date time datetime integer number quantity_with_unit year".split())
_OF_PLACES = frozenset("identifier place".split())
_PART_OF_DAY = (" in the morning", " in the afternoon", " in the evening", " am", " pm", "am", "pm")
SAID_TOGETHER_SHARE = 0.6


def ordered_parameter_pairs(words: FunctionWords) -> list[tuple[str, str]]:
    """Return pairs of parameters of which one is before the other."""
    return [
        pair for pair in span_parameter_pairs(words) if words.kinds[pair[0]].kind in _WITH_ORDER
    ]


def span_parameter_pairs(words: FunctionWords) -> list[tuple[str, str]]:
    """Return pairs of parameters that are the two ends of something: of time, of a way."""
    found: list[tuple[str, str]] = []
    for name, kind in words.kinds.items():
        for other, its in words.kinds.items():
            if name == other or kind.kind != its.kind or kind.kind not in _WITH_ORDER | _OF_PLACES:
                continue
            one, two = f" {spaced_words(name)} ", f" {spaced_words(other)} "
            for first, second in _PAIRS:
                if f" {first} " in one and one.replace(f" {first} ", f" {second} ") == two:
                    found.append((name, other))
    return found


def month_spanned_by_dates(first: Any, last: Any, form: str) -> datetime.date | None:
    """Return the first day of the month that two dates span; None where they span no month."""
    begin, end = parse_moment(str(first), form), parse_moment(str(last), form)
    if begin is None or end is None or begin.day != 1 or begin >= end:
        return None
    following = end + datetime.timedelta(days=1)
    one_month = following.day == 1 and (end.year, end.month) == (begin.year, begin.month)
    return begin.date() if one_month else None


def said_span(
    words: FunctionWords, pair: tuple[str, str], arguments: Mapping[str, Any], rng: Random
) -> SaidValue:
    """Return one way to say both ends at once: "from 9 to half past ten in the morning"."""
    kind, first, last = words.kinds[pair[0]], arguments[pair[0]], arguments[pair[1]]
    if kind.kind == "date" and (month := month_spanned_by_dates(first, last, kind.format)):
        told = ("in {m}", "in {m}", "of {m}", "from all of {m}", "in the course of {m}")
        return SaidValue(rng.choice(told).replace("{m}", date_in_form(month, "MMMM y")), False)
    one, two = spoken_value(kind, first, rng), spoken_value(words.kinds[pair[1]], last, rng)
    if kind.kind == "time":
        one, two = _once_told(one, two)
    forms = ["from {a} to {b}", "from {a} to {b}"]
    if kind.kind in _WITH_ORDER:
        forms += ["from {a} until {b}", "between {a} and {b}", "from {a} till {b}", "{a} to {b}"]
    if re.search(r"\bnew\b", kind.description.lower()):
        forms = ["to {a} until {b}", "so that it is from {a} to {b}", "from {a} to {b} instead"]
    return SaidValue(rng.choice(forms).replace("{a}", one).replace("{b}", two), False)


def _once_told(one: str, two: str) -> tuple[str, str]:
    """Return two clock times of which the second tells the part of the day for both."""
    for part in _PART_OF_DAY:
        if one.endswith(part) and two.endswith(part) and one != two:
            return one.removesuffix(part), two
    return one, two
