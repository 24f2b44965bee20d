"""Clauses: how a value is said beside a phrase by the tables: flags, rows, both ends of a span."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, NamedTuple

from fctncalling.lab.own_api.english import (
    base_verb,
    lower_first,
    singular,
    spaced_words,
    with_article,
)
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.doc_sentence import first_sentence, known_verbs
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.spoken_values import (
    WordedValue,
    address_text,
    spoken_value,
    value_row,
)
from fctncalling.lab.own_api.words.vocabulary import (
    PREPOSITIONS,
    other_nouns,
    split_phrases,
    word_table,
)

_ONE = re.compile(r"(?<![\w.,-])(1|one) (people|children|[a-z]{2,}(?<!s)s)(?!\w)")
_TRUE = r"[`'\"]?true[`'\"]?"
_WISH = re.compile(
    rf"(?:(?:optional|boolean|flag|option|a|the|this|if|when|whether|set|pass|use|specify|specifies|"
    rf"value|parameter|be|as|it|indicates|indicating|determines|controls|that|or|not|you|want|"
    rf"is|to|=|{_TRUE})[,:]? )*?(?:{_TRUE}|whether|used|want|flag|option),? (?:or not )?to (.+)"
)
_STATED = re.compile(rf"(?:.*\b(?:whether|if|when)(?: or not)?|{_TRUE} (?:if|when)) (.+)")
_IF_TRUE = re.compile(
    rf"^(?:optional|boolean), |^(?:if|when)(?: this is)?(?: set)?(?: to)? {_TRUE},? (?:will )?"
)
_ADJECTIVE = re.compile(r"\w+(?:ed|able|ible|ive|al|ic|ate|ent|ant|ary|ous|less|ful|only)$")
_OTHER_VERB = re.compile(r"\w (?:has|have|comes?|needs?|wants?|goes|go|includes?|brings?) ")
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
    told = lower_first(first_sentence(words.kinds[name].description)).replace("`", "")
    low = _IF_TRUE.sub("", told).split(", ")[0]
    if found := _WISH.match(low):
        things = "|".join(map(re.escape, words.thing_nouns()))  # "archive a block": the one named
        return _wished(re.sub(rf"\b(?:an?|the|this) (?:{things})(?=\.?$)", "it", found[1]), value)
    if stated := _STATED.match(low):
        return _stated(words, stated[1], value)
    first, _, rest = low.partition(" ")
    is_verb = bool(rest) and base_verb(first) in known_verbs()
    return _wished(f"{base_verb(first)} {rest}", value) if is_verb else []


def _wished(wish: str, value: bool) -> list[str]:
    wish = re.sub(r" (?:or not|otherwise|by default)\b.*", "", wish)
    if len(wish.split()) > MOST_WORDS or "true" in wish or "false" in wish:
        return []
    return [f"~and {wish}", f"~and please {wish}"] if value else [f"do not {wish}"]


def _stated(words: FunctionWords, clause: str, value: bool) -> list[str]:
    most = 7 if words.method else MOST_WORDS  # a longer one is a document's, no person's
    verb = re.search(r" (?:is|are|was|should|will|can|may|must) ", clause)
    is_plain = len(clause.split()) <= most and not re.search(r"\b(?:true|false|not)\b", clause)
    if not is_plain or not (verb or (value and _OTHER_VERB.search(clause))):
        return []
    return [clause] if value else [clause.replace(verb[0], f"{verb[0]}not ", 1)] if verb else []


def _of_name(words: FunctionWords, name: str, value: bool) -> list[str]:
    spoken = re.sub(r"^(?:is|should|do|does|be) ", "", spaced_words(name))
    first, _, rest = spoken.partition(" ")
    if first in ("include", "with", "show", "has", "need", "needs", "return", "expand") and rest:
        return [f"~with {rest}", f"~{rest} included"] if value else [f"~without {rest}"]
    is_state = _ADJECTIVE.match(spoken.split(" ")[-1]) is not None
    if first in known_verbs() and first == base_verb(first) and not _ADJECTIVE.match(first):
        wish = f"{first} {rest or 'it'}"
        return [f"~and {wish}"] if value else [f"do not {wish}"]
    if is_state and not rest:
        return [f"make it {spoken}"] if value else [f"it should not be {spoken}"]
    if is_state:  # "email required"
        return [f"~with {spoken}"] if value else [f"~without {spoken}"]
    return [f"~with {spoken} turned {'on' if value else 'off'}"]


_NO_NAMES = frozenset("none null any all other default unknown auto self true false".split())
CHANGES = frozenset("move update change edit set modify patch adjust reschedule amend".split())
_CLEAR_ALONE = frozenset("date time datetime email phone url quantity_with_unit month".split())
LISTED_SHARE = 0.5  # of listed values that are said without their parameter's name
ADJECTIVE_SHARE = 0.6  # of those that can stand before the noun of a list
SENTENCE_SHARE = 0.15
SYNONYM_SHARE = 0.2  # of nouns that people have another word for


class SaidValue(NamedTuple):
    """A value in words: a clause after the phrase, a sentence, or a word before the noun."""

    text: str
    is_sentence: bool
    is_adjective: bool = False  # "delivered" of "delivered shipments"


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
    of_list: bool = False  # only where several things are looked at: "that are open"
    adjective: bool = False  # whether a listed value may stand before these: "open bookings"

    def forms_of(self, kind: ArgumentKind) -> list[str]:
        """Return the forms that are clear for a kind: few values are clear alone."""
        bare = () if kind.kind in _CLEAR_ALONE else ("{v}", "- {v} -")
        return [form for form in split_phrases(self.forms) if form not in bare]

    def fits(self, name: str, kind: str, about: str) -> bool:
        """Return whether the row fits a parameter of that kind and description."""
        if self.kinds and kind not in self.kinds.split():
            return False
        if self.name and not re.search(rf"\b(?:{self.name})\b", name):
            return False
        return re.search(self.about, f"{name} {about}") is not None


@cache
def _rows() -> tuple[ClauseRow, ...]:
    return tuple(ClauseRow(**row) for row in word_table("clauses")["clause"])


@cache
def clause_row(name: str, kind: str, about: str, of: str) -> ClauseRow | None:
    """Return the first row that fits a parameter's words; `of`: change, list or nothing."""
    rows = (r for r in _rows() if (of == "change" or not r.of_change))
    rows = (r for r in rows if (of == "list" or not r.of_list))
    return next((row for row in rows if row.fits(name, kind, about)), None)


def clause_row_of(words: FunctionWords, name: str) -> ClauseRow | None:
    """Return the row of the table that says a parameter; None if none fits."""
    kind = words.kinds[name]
    return clause_row(spaced_words(name), kind.kind, kind.description.lower(), rows_for(words))


def rows_for(words: FunctionWords) -> str:
    """Return which rows fit a function beside the common ones: those of a change, of a list."""
    if words.operation is None:
        return "" if words.method else "change"
    sort = words.operation.sort
    if sort in ("look", "search") and words.operation.lists_several:
        return "list"
    is_change = sort == "change" or words.verb in CHANGES
    return "change" if is_change or (sort == "other" and not words.method) else ""


@cache
def _clear_forms(words: FunctionWords, name: str) -> list[str]:
    """Return a row's forms; with the label alone where two parameters have the same row."""
    kind, row = words.kinds[name], clause_row_of(words, name)
    if row is None:
        return []
    is_shared = any(
        clause_row_of(words, other) is row
        for other, its in words.kinds.items()
        if other != name and its.kind == kind.kind
        if not its.values or {*its.values} & {*kind.values}
    )
    return [form for form in row.forms_of(kind) if not is_shared or "{l}" in form or "{m}" in form]


def said_by_table(
    words: FunctionWords, name: str, value: Any, rng: Random, noun: str = ""
) -> SaidValue | None:
    """Say a value by the tables; None without a form that is clear in its function.

    `noun`: the noun in the phrase that an adjective may stand before.
    """
    kind, row = words.kinds[name], clause_row_of(words, name)
    if isinstance(value, bool):
        return SaidValue(*said_flag(words, name, value, rng))
    if kind.kind == "enum" and not isinstance(value, WordedValue):
        if row and row.adjective and noun and rng.random() < ADJECTIVE_SHARE:
            text = spoken_value(kind, value, rng)
            if re.fullmatch(r"[a-z]+(?:-[a-z]+)*", text):
                return SaidValue(text, False, True)
        ways = _ways_of_value(words, str(value))
        if ways and rng.random() < LISTED_SHARE:
            return rng.choice(ways)
    forms = _clear_forms(words, name)
    if str(value).lower() in _NO_NAMES:
        forms = [form for form in forms if "{l}" in form]
    if isinstance(value, Mapping) and not address_text(kind, value):
        return None  # is said by its keys
    if words.operation and words.label(name) == words.operation.head and kind.kind in _NUMBERED:
        return SaidValue(f"of {spoken_value(kind, value, rng)}", False)  # "record a weight of 3 kg"
    is_update = words.operation is not None and words.operation.sort == "change"
    if row is None or not forms or (is_update and not row.of_change):
        return None
    is_sentence = bool(row.sentences) and rng.random() < SENTENCE_SHARE
    form = rng.choice(split_phrases(row.sentences) if is_sentence else forms)
    return SaidValue(_filled(words, name, value, row, form, rng), is_sentence)


def _ways_of_value(words: FunctionWords, value: str) -> list[SaidValue]:
    """Return how a listed value is said without its parameter, in a function that it suits."""
    row, of = value_row(value), rows_for(words)
    ways = [SaidValue(text, False) for text in row.get("clauses", ())]
    ways += [SaidValue(text, True) for text in row.get("sentences", ())]
    if of == "list":
        return [each for each in ways if not each.is_sentence]
    return [each for each in ways if not each.text.startswith("that ")]


def _is_text(kind: ArgumentKind) -> bool:
    return kind.kind in ("free_text", "integer", "url", "enum") and kind.topic != "query"


def _tells_its_noun(kind: ArgumentKind) -> bool:
    """Return whether an identifier's letters imply its noun: "L-301" is a loan."""
    shape = kind.pattern or str((kind.examples or ("",))[0])
    return kind.type == "string" and bool(re.match(r"\^?[A-Z]{1,4}-?(?:\d|\\d|\[0-9)", shape))


def _filled(
    words: FunctionWords, name: str, value: Any, row: ClauseRow, form: str, rng: Random
) -> str:
    kind, label = words.kinds[name], words.label(name)
    text = with_optional_quotes(kind, spoken_value(kind, value, rng), row.literal, rng)
    return filled_form(form, label, text, row)


def _at_time(found: re.Match[str]) -> str:
    return f"{found[1] or 'at'} {found[2]}"


def filled_form(form: str, label: str, text: str, row: ClauseRow) -> str:
    """Return a form with the value for {v}, the label for {l} and its named part for {m}."""
    named = re.search(rf"\b(?:{row.name})\b", label) if row.name else None
    part = (named[1] if named and named.re.groups else None) or label
    said = form.replace("{l}", label).replace("{m}", part).replace("{v}", text)
    said = re.sub(r"\b(1|one) of us\b", r"\1 person", said)
    said = _ONE.sub(lambda one: f"{one[1]} {singular(one[2])}", said)
    said = re.sub(r"\b(\w+) \1\b", r"\1", said.replace("{a}", with_article(text)))
    said = re.sub(r"\b(?:in|(to)) the (midday|noon|night)\b", _at_time, said)
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
    if isinstance(value, WordedValue):
        return value.text
    kind = words.kinds[name]
    row = clause_row_of(words, name)
    text = with_optional_quotes(
        kind, spoken_value(kind, value, rng), row.literal if row else "", rng
    )
    bound = words.operation.nouns.get(name) if words.operation else None
    if kind.kind == "enum" and name == words.primary:
        noun = words.thing_nouns()[0]
        forms = (f"the {text} {noun}", f"{noun} {text}", f"the {text}", f"the {text}")
        return rng.choice(forms[:2] if words.method else forms)
    if isinstance(value, list) or (kind.kind != "identifier" and not (bound and _is_text(kind))):
        return text
    nouns = words.thing_nouns() if name == words.primary else words.nouns(name)[:2]
    bare_share = (0.3 if words.method else 0.5) if _tells_its_noun(kind) else 0.0
    if not nouns or rng.random() < bare_share:
        return text
    noun = rng.choice(nouns)
    if (others := other_nouns(noun)) and rng.random() < SYNONYM_SHARE:
        noun = rng.choice(others)
    return f"{rng.choice(('', 'the ') if bound else ('', '', '', 'the '))}{noun} {text}"


_WITH_ORDER = frozenset("date time datetime integer number quantity_with_unit year".split())
_NUMBERED = frozenset("integer number quantity_with_unit".split())
_OF_PLACES = frozenset("identifier place enum free_text standard".split())
SAID_TOGETHER_SHARE = 0.85


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
            for first, second in word_table("value_words")["pairs"]:
                if f" {first} " in one and one.replace(f" {first} ", f" {second} ") == two:
                    found.append((name, other))
    return found


def said_span(
    words: FunctionWords, pair: tuple[str, str], arguments: Mapping[str, Any], rng: Random
) -> SaidValue:
    """Return one way to say both ends at once: "from 9 to half past ten in the morning"."""
    kind = words.kinds[pair[0]].kind
    one, two = (spoken_value(words.kinds[name], arguments[name], rng) for name in pair)
    forms = ["from {a} to {b}", "from {a} to {b}"]
    if kind in _NUMBERED:
        own = re.sub(r"^(?:min|minimum|from|lowest) ", "", words.label(pair[0]))
        forms = [f"with {with_article(own)} between {{a}} and {{b}}", f"{own} {{a}} to {{b}}"]
        forms = [*forms, "between {a} and {b}"] if words.kinds[pair[0]].unit else forms
    elif kind in _WITH_ORDER:
        forms += ["from {a} until {b}", "between {a} and {b}", "from {a} till {b}"]
        if done := re.match(r"(\w+ed) ", spaced_words(pair[0])):  # "created between"
            forms = [f"{done[1]} {form}" for form in forms]
    return SaidValue(rng.choice(forms).replace("{a}", one).replace("{b}", two), False)
