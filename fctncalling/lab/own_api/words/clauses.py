"""Clauses: how a value is said beside a phrase by the tables: flags, rows, both ends of a span."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, NamedTuple

from fctncalling.lab.own_api.english import base_verb, ordinal, singular, spaced_words
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.kinds.scalar_kind import may_name_creator, parse_moment
from fctncalling.lab.own_api.kinds.value_tables import value_table
from fctncalling.lab.own_api.words.doc_sentence import first_sentence, known_verbs
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.spoken_values import (
    WordedValue,
    enum_value_clauses,
    spoken_value,
)
from fctncalling.lab.own_api.words.vocabulary import PREPOSITIONS, split_phrases, word_table

_TRUE = r"[`'\"]?true[`'\"]?"
_WISH = re.compile(
    rf"(?:(?:optional|boolean|flag|option|a|the|this|if|when|whether|set|pass|use|specify|specifies|"
    rf"value|parameter|be|as|it|indicates|indicating|determines|controls|that|or|not|you|want|"
    rf"is|to|=|{_TRUE})[,:]? )*?(?:{_TRUE}|whether|used|want|flag|option),? (?:or not )?to (.+)"
)
_STATED = re.compile(rf"(?:.*\b(?:whether|if|when)(?: or not)?|{_TRUE} (?:if|when)) (.+)")
_ONLY_SHOWN = re.compile(
    r"only (?:returns?|includes?|shows?|lists?) (\w+ (?:where|that|which|with) [^.]+)"
)
_IF_TRUE = re.compile(rf"(?:if|when)(?: this is)?(?: set)?(?: to)? {_TRUE},? (?:will )?(.+)")
_SHOWN = re.compile(
    r"(.+?) (?:should|will|must|are to|is to) be (?:returned|included|shown|listed)"
)
_DENIED = (
    *((" is ", " is not "), (" are ", " are not "), (" has to ", " need not ")),
    *((" was ", " was not "), (" can ", " cannot "), (" should ", " should not ")),
    *((" has ", " has no "), (" will ", " will not "), (" came back ", " did not come back ")),
)
_ADJECTIVE = re.compile(r"\w+(?:ed|able|ible|ive|al|ic|ate|ent|ant|ary|ous|less|ful|only)$")
MOST_WORDS = 12


def said_flag(words: FunctionWords, name: str, value: bool, rng: Random) -> tuple[str, bool]:
    """Return a phrase for a flag, and whether that is a whole sentence.

    From the table, else from its description, else from its name.
    """
    forms = _of_table(words, name, value) or _of_description(words, name, value)
    text = rng.choice(forms or _of_name(words, name, value))
    return text.removeprefix("~"), not text.startswith("~")


def has_flag_words(words: FunctionWords, name: str) -> bool:
    """Return whether a flag has a wording but "total: yes"."""
    told = _of_table(words, name, True) or _of_description(words, name, True)
    if told:  # "delete a block" of another document is no word of a page's
        return not any(re.search(r"^~?and (?:please )?\w+ an? \w+$", each) for each in told)
    spoken = re.sub(r"^(?:is|should|do|does|be) ", "", spaced_words(name))
    is_state = re.search(r"(?:ed|able|ible|ive|only)$", spoken) is not None
    return is_state or (" " in spoken and spoken.split(" ")[0] not in PREPOSITIONS)


def _of_table(words: FunctionWords, name: str, value: bool) -> list[str]:
    """Return the table's forms for a name; of an API's hundreds for a whole name alone."""
    table, spoken = word_table("value_words")["flags"], spaced_words(name)
    named = [re.sub(r"^(?:is|has) ", "", spoken)] if words.method else spoken.split()
    rows = [table[word] for word in named if word in table]
    return [form for row in rows for form in split_phrases(row["yes" if value else "no"])]


def _of_description(words: FunctionWords, name: str, value: bool) -> list[str]:
    told = first_sentence(words.kinds[name].description).split(", ")
    low = told[1] if len(told) > 1 and told[0].lower() in ("optional", "boolean") else told[0]
    low = ", ".join([low, *told[1:2]]) if re.match(rf"(?:if|when)[^,]*{_TRUE}$", low, re.I) else low
    low = f"{low[:1].lower()}{low[1:]}".replace("`", "")
    if shown := _ONLY_SHOWN.match(low):
        return [f"~only {shown[1]}"] if value else []
    if found := _WISH.match(low):
        things = "|".join(map(re.escape, words.thing_nouns()))  # "archive a block": the one named
        return _wished(re.sub(rf"\b(?:an?|the|this) (?:{things})(?=\.?$)", "it", found[1]), value)
    consequence = _IF_TRUE.match(low)
    stated = consequence or _STATED.match(low)
    clause = stated[1] if stated else low
    first = clause.split(" ")[0]
    if not stated or consequence:
        is_verb = base_verb(first) in known_verbs() and " " in clause
        return _wished(f"{base_verb(first)}{clause[len(first) :]}", value) if is_verb else []
    if shown := _SHOWN.match(clause):
        return [f"~with {shown[1]}", f"~{shown[1]} included"] if value else [f"~without {shown[1]}"]
    return _stated(words, clause, value)


def _wished(wish: str, value: bool) -> list[str]:
    wish = re.sub(r" (?:or not|otherwise|by default)\b.*", "", wish)
    if len(wish.split()) > MOST_WORDS or "true" in wish or "false" in wish:
        return []
    return [f"~and {wish}", f"~and please {wish}"] if value else [f"do not {wish}"]


def _stated(words: FunctionWords, clause: str, value: bool) -> list[str]:
    most = 7 if words.method else MOST_WORDS  # a longer one is a document's, no person's
    if len(clause.split()) > most or re.search(r"\b(?:true|false|not|parameter)\b", clause):
        return []
    denied = [(verb, no) for verb, no in _DENIED if verb in f" {clause} "]
    if not denied:
        return []
    verb, no = denied[0]
    if verb == " can ":
        return []  # what something may do is no wish
    denial = re.sub(r"\bhas no an? ", "has no ", f" {clause} ".replace(verb, no, 1))
    return [clause] if value else [denial.strip()]


def _of_name(words: FunctionWords, name: str, value: bool) -> list[str]:
    spoken = re.sub(r"^(?:is|should|do|does|be) ", "", spaced_words(name))
    first, _, rest = spoken.partition(" ")
    if first in ("include", "with", "show", "has", "need", "needs", "return", "expand") and rest:
        rest = rest.replace(" only", "")
        return [f"~with {rest}", f"~{rest} included"] if value else [f"~without {rest}"]
    if first == "only" and rest:
        return [f"~only the {rest} ones"] if value else [f"not only the {rest} ones"]
    if first in known_verbs() and first == base_verb(first) and not _ADJECTIVE.match(first):
        wish = f"{first} {rest or 'it'}"
        return [f"~and {wish}"] if value else [f"do not {wish}"]
    changes = words.operation is not None and words.operation.sort in ("make", "change")
    if changes and not rest and _ADJECTIVE.match(spoken):
        return [f"make it {spoken}"] if value else [f"it should not be {spoken}"]
    if rest and _ADJECTIVE.match(spoken.split(" ")[-1]):  # "email required"
        return [f"~with {spoken}"] if value else [f"~without {spoken}"]
    is_switch = spoken in ("state", "status", "value", "enabled", "active", "on")
    on = "on" if value else "off"
    return [f"turn it {on}"] if is_switch else [f"~with {spoken} turned {on}"]


CHANGES = frozenset("move update change edit set modify patch adjust reschedule amend".split())
_CLEAR_ALONE = frozenset("date time datetime email phone url quantity_with_unit month".split())
LISTED_SHARE = 0.6  # of listed values that are said without their parameter's name
SENTENCE_SHARE = 0.25


class SaidValue(NamedTuple):
    """A value in words: a clause after the phrase, or a separate sentence."""

    text: str
    is_sentence: bool


@dataclass(frozen=True)
class ClauseRow:
    """One row of `clauses.toml`."""

    forms: str
    sentences: str = ""
    name: str = ""
    about: str = ""
    kinds: str = ""
    literal: str = ""  # how a text is written: plain, title, quoted
    of_change: bool = False  # only where something is changed: "to Tuesday instead"
    clear: bool = False  # whether its forms say which of an API's hundreds of parameters is meant

    def forms_of(self, kind: ArgumentKind) -> list[str]:
        """Return the forms that are clear for a kind: few values are clear alone."""
        bare = () if kind.kind in _CLEAR_ALONE else ("{v}", "- {v} -")
        return [form for form in split_phrases(self.forms) if form not in bare]

    def fits(self, name: str, kind: ArgumentKind) -> bool:
        """Return whether the row fits a parameter."""
        words = spaced_words(name)
        if self.kinds and kind.kind not in self.kinds.split():
            return False
        if self.name and not re.search(rf"\b(?:{self.name})\b", words):
            return False
        return re.search(self.about, f"{words} {kind.description.lower()}") is not None


@cache
def _rows() -> tuple[ClauseRow, ...]:
    return tuple(ClauseRow(**row) for row in word_table("clauses")["clause"])


@cache
def clause_row_of(words: FunctionWords, name: str) -> ClauseRow | None:
    """Return the first row of the table that fits a parameter; None if none fits."""
    sort = words.operation.sort if words.operation else "other"
    changes = sort == "change" or (sort == "other" and not words.method)
    rows = (row for row in _rows() if changes or not row.of_change)
    return next((row for row in rows if row.fits(name, words.kinds[name])), None)


def said_by_table(words: FunctionWords, name: str, value: Any, rng: Random) -> SaidValue | None:
    """Say a value by the tables; None without a form that is clear in this API.

    An HTTP API has hundreds of parameters that are alike: few forms say there which one is meant.
    """
    kind, row = words.kinds[name], clause_row_of(words, name)
    if isinstance(value, bool):
        return SaidValue(*said_flag(words, name, value, rng))
    if kind.kind == "enum" and not words.method and not isinstance(value, WordedValue):
        clauses, sentences = enum_value_clauses(kind, value)
        ways = [*(SaidValue(text, False) for text in clauses)]
        ways += [SaidValue(text, True) for text in sentences]
        if ways and rng.random() < LISTED_SHARE:
            return rng.choice(ways)
    if row is None or not (forms := row.forms_of(kind)) or (words.method and not row.clear):
        return None
    is_sentence = bool(row.sentences) and rng.random() < SENTENCE_SHARE
    form = rng.choice(split_phrases(row.sentences) if is_sentence else forms)
    return SaidValue(_filled(words, name, value, row, form, rng), is_sentence)


def _is_text(kind: ArgumentKind) -> bool:
    return kind.kind in ("free_text", "integer", "url", "enum") and kind.topic != "query"


def _tells_its_noun(kind: ArgumentKind) -> bool:
    """Return whether an identifier's letters imply its noun: "L-301" is a loan."""
    shape = kind.pattern or str((kind.examples or ("",))[0])
    return kind.type == "string" and bool(re.match(r"\^?[A-Z]{1,4}-(?:\d|\\d|\[0-9)", shape))


def _is_counted(label: str) -> bool:
    return label.endswith("s") and not label.startswith(("min", "max"))


def _filled(
    words: FunctionWords, name: str, value: Any, row: ClauseRow, form: str, rng: Random
) -> str:
    kind, label = words.kinds[name], words.label(name)
    text = with_optional_quotes(kind, spoken_value(kind, value, rng), row.literal, rng)
    if "{lv}" in form:
        form = form.replace("{lv}", spoken_value_with_noun(words, name, value, rng))
    if "{o}" in form:
        form = form.replace("{o}", ordinal(int(value)) if isinstance(value, int) else text)
    said = re.sub(r"\b(\w+) \1\b", r"\1", form.replace("{l}", label).replace("{v}", text))
    return re.sub(r"\b([Aa]nother) an? ", r"\1 ", said)


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
    """Return a number with or without the noun of its thing: "loan L-301"."""
    kind = words.kinds[name]
    row = clause_row_of(words, name)
    text = with_optional_quotes(
        kind, spoken_value(kind, value, rng), row.literal if row else "", rng
    )
    label = words.label(name)
    if name == words.amount and not kind.unit and _is_counted(label):
        return f"{text} {singular(label) if value == 1 else label}"
    bound = words.operation.nouns.get(name) if words.operation else None
    if kind.kind == "enum" and name == words.primary:
        noun = words.thing_nouns()[0]
        forms = (f"the {text} {noun}", f"{noun} {text}", f"the {text}", f"the {text}")
        return rng.choice(forms[:2] if words.method else forms)
    if kind.topic == "query" and may_name_creator(kind) and value in value_table("last"):
        things = words.filled("{ns}")
        return rng.choice((f"something by {value}", f"anything by {value}", f"{things} by {value}"))
    if isinstance(value, list) or (kind.kind != "identifier" and not (bound and _is_text(kind))):
        return text
    nouns = words.thing_nouns() if name == words.primary else words.nouns(name)[:2]
    needs_noun = bool(words.method) or not _tells_its_noun(kind)
    if nouns == ("one",):
        return f"the id {text}" if words.method else text
    if not nouns or (not needs_noun and rng.random() < 0.5):
        return text
    noun = rng.choice(nouns)
    determiner = rng.choice(("", "", "", "the ") if not bound else ("", "the "))
    if noun.partition(" ")[0] in PREPOSITIONS:  # "to postcode" takes no article
        determiner = ""
    return f"{determiner}{noun} {text}"


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


@cache
def ordered_parameter_pairs(words: FunctionWords) -> list[tuple[str, str]]:
    """Return pairs of parameters of which one is before the other."""
    return [
        pair for pair in span_parameter_pairs(words) if words.kinds[pair[0]].kind in _WITH_ORDER
    ]


@cache
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
    """Return the first day of the month that two dates span; None if they span no month."""
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
        return SaidValue(rng.choice(told).replace("{m}", f"{month:%B %Y}"), False)
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
