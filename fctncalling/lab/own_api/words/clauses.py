"""Clauses: the ways in which a request says values beside its phrase.

One value alone, by the words of a phrases file or by ours; a wish for a flag; both ends of a span
together; a remark on what goes unsaid.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, NamedTuple

from fctncalling.lab.own_api.english import base_verb, enumerated, ordinal, singular
from fctncalling.lab.own_api.kinds import MISSING, ArgumentKind
from fctncalling.lab.own_api.kinds.scalar_kind import may_name_creator, parse_moment
from fctncalling.lab.own_api.kinds.value_tables import value_table
from fctncalling.lab.own_api.words.doc_sentence import first_sentence, known_verbs
from fctncalling.lab.own_api.words.function_words import PEOPLE, FunctionWords
from fctncalling.lab.own_api.words.spoken_values import (
    WordedValue,
    enum_value_clauses,
    join_with_and,
    spoken_value,
)
from fctncalling.lab.own_api.words.vocabulary import (
    PREPOSITIONS,
    register_table_phrases,
    spaced_words,
    split_phrases,
    word_table,
)

OTHER_UNIT_SHARE = 0.5  # of numbers that another unit says in a word or two
_UNIT = re.compile(r"\{\} ([A-Za-z]+)(?! (?:per|of|a|an|old)\b)(?![\w/^])")
_SHORT_UNIT = re.compile(r"\{\} (?:[^aeiou\s]{1,4}|[A-Z])\b")  # "nine A" is no current
_COUNTING = ("last ", "past ", "next ", "coming ")  # the last hour, not the last an hour
_ONE = re.compile(
    r"(?<![\w.,-])(1|one) (people|calories|inches|successes|[a-z]{2,}(?<!s)s)(?![\w])(?! (?:of|is))"
)


def own_clauses(
    words: FunctionWords, names: Sequence[str], arguments: Mapping[str, Any], rng: Random
) -> str:
    """Return the clauses of arguments, joined as people write them, with a blank before each.

    What hangs behind a comma comes last, and "with" is said once for several.
    """
    texts = [own_clause(words, name, arguments[name], rng) for name in names]
    texts.sort(key=lambda text: text.startswith(","))
    said = ""
    for index, text in enumerate(texts):
        if text.startswith(","):
            said += text
        elif index and text.startswith("with ") and texts[index - 1].startswith("with "):
            goes_on = index + 1 < len(texts) and texts[index + 1].startswith("with ")
            said += f"{',' if goes_on else ' and'} {text.removeprefix('with ')}"
        else:  # never two numbers in a row
            said += f"{',' if said[-1:].isdigit() and text[:1].isdigit() else ''} {text}"
    return said


def own_clause(
    words: FunctionWords, name: str, value: Any, rng: Random, form: str | None = None
) -> str:
    """Word a value by one of its clauses or `form`, else by the default words."""
    said = _said_in_clause(words, name, words.kinds[name], value, rng, form)
    return verbatim_value(words, name, value, rng).text if said is None else said


def _said_in_clause(
    words: FunctionWords, place: str, kind: ArgumentKind, value: Any, rng: Random, form: str | None
) -> str | None:
    """Return the clause of a parameter, or of an object's key ("PARAMETER.KEY"), if it has one."""
    forms = [form] if form else (words.clauses or {}).get(place, ())
    told = str(value).lower() if isinstance(value, bool) else str(value)
    literal = [text.removeprefix(f"{told} = ") for text in forms if text.startswith(f"{told} = ")]
    choices = [*literal, *(text for text in forms if "{}" in text)]
    if not choices:
        return None
    chosen = rng.choice(choices)
    other = _in_other_unit(kind, value, chosen) if isinstance(value, int | float) else ""
    if other and rng.random() < OTHER_UNIT_SHARE:
        return other
    if isinstance(value, WordedValue):
        text = value.text
    elif isinstance(value, Mapping):
        text = enumerated(_members(words, place, kind, value, rng))
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        items = [" ".join(_members(words, place, kind, each, rng)) for each in value]
        text = join_with_and(items, rng)
    else:
        text = spoken_value(kind, value, rng)
        if text.isalpha() and isinstance(value, int | float) and _SHORT_UNIT.search(chosen):
            text = f"{value:g}"
        if "'" not in chosen and '"' not in chosen:
            text = with_optional_quotes(kind, text, "", rng)
    said = chosen.replace("{}", text).replace("the the ", "the ")
    return _ONE.sub(lambda one: f"{one[1]} {singular(one[2])}", said)


def _members(
    words: FunctionWords, place: str, kind: ArgumentKind, value: Mapping[str, Any], rng: Random
) -> list[str]:
    """Return the values of an object's keys, each in its clause or behind the key."""
    found = []
    for key, kind_of_key in (kind.item or kind).keys_of(value).items():
        if key in value:
            one = value[key]
            said = _said_in_clause(words, f"{place}.{key}", kind_of_key, one, rng, None)
            found.append(said or f"{key} {spoken_value(kind_of_key, one, rng)}")
    return found


def _in_other_unit(kind: ArgumentKind, value: float, form: str) -> str:
    """Return a clause in another unit that the document names; "" if none."""
    unit = _UNIT.search(form)
    if unit is None or f" {unit[1]} " not in f" {kind.description.strip('.')} ":
        return ""
    amount: str = word_table("value_words")["amounts"].get(f"{unit[1]} {value:g}", "")
    before = form[: unit.start()]
    amount = re.sub(r"^an? ", "", amount) if before.endswith(_COUNTING) else amount
    return f"{before}{amount}{form[unit.end() :]}" if amount else ""


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
    """Return a phrase for a flag, and whether it is a whole sentence.

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
    on, yes = ("on", "yes") if value else ("off", "no")
    if words.method:
        is_switch = spoken in ("state", "status", "value", "enabled", "active", "on")
        if rest and _ADJECTIVE.match(spoken.split(" ")[-1]):  # "email required"
            return [f"~with {spoken}"] if value else [f"~without {spoken}"]
        return [f"turn it {on}"] if is_switch else [f"~with {spoken} turned {on}"]
    return [f"~with {spoken} turned {on}", f"~{spoken}: {yes}", f"{spoken} should be {on}"]


CHANGES = frozenset("move update change edit set modify patch adjust reschedule amend".split())
USUAL_SHARE, UNCHANGED_SHARE, NAMED_SHARE = 0.03, 0.1, 0.05
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


LABELLED = ("{l} {v}", "{l}: {v}", "with {l} {v}", "with a {l} of {v}")
NEW_VALUES = (
    ("- set the {l} to {v} -", "and set the {l} to {v}", "with {v} as the new {l}", "new {l}: {v}"),
    ("the new {l} is {v}", "the {l} should be {v}", "make the {l} {v}", "set the {l} to {v}"),
)
"""Forms of what something is changed to, as clauses and as sentences."""
NEW_VALUE_SHARE = 0.7
WRAPPERS = frozenset("data body attributes properties payload object request input item".split())
"""Labels of objects that say nothing of what is in them."""
_CLEAR_ALONE = frozenset("date time datetime email phone url quantity_with_unit month".split())
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
    of_change: bool  # only where something is changed: "to Tuesday instead"
    is_clear: bool  # whether its forms say what a value is where an API has hundreds of parameters

    def usable(self, kind: ArgumentKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return (forms, sentences) that say what a value is: few values are clear alone."""
        if kind.kind in _CLEAR_ALONE:
            return self.forms, self.sentences
        return tuple(e for e in self.forms if e not in ("{v}", "- {v} -")), self.sentences

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
            row.get("of_change", False),
            row.get("clear", False),
        )
        for row in word_table("clauses")["clause"]
    )


@cache
def clause_row_of(words: FunctionWords, name: str) -> ClauseRow | None:
    """Return the first row of the table that is for a parameter; None where none is."""
    sort = words.operation.sort if words.operation else "other"
    changes = sort == "change" or (sort == "other" and not words.method)
    rows = (row for row in _rows() if changes or not row.of_change)
    return next((row for row in rows if row.fits(name, words.kinds[name])), None)


def verbatim_value(words: FunctionWords, name: str, value: Any, rng: Random) -> SaidValue:
    """Return one way to say a parameter's value beside the phrase."""
    kind = words.kinds[name]
    is_worded = isinstance(value, WordedValue)  # which no table knows as a value
    if isinstance(value, bool):
        return SaidValue(*said_flag(words, name, value, rng))
    is_clear = words.method and (row := clause_row_of(words, name)) is not None and row.is_clear
    sort_of = _SORT_OF.match(kind.description.lower()) if kind.kind == "enum" else None
    sort_of = None if is_clear or is_worded else sort_of
    if sort_of and rng.random() < SORT_SHARE:
        form = rng.choice(("with a", "as a", "- a", "so that it is a"))
        form = f"{form} {{v}} {singular(sort_of[1])}{' -' if form == '- a' else ''}"
        return _filled(words, name, value, form, False, rng, "")
    own = None if is_clear or is_worded else _of_listed_value(kind, value, rng)
    if own is not None:
        return own
    label = words.label(name)
    if name == words.primary and rng.random() < 0.8:
        text = spoken_value_with_noun(words, name, value, rng)
        ways = ["for {}", "- {} -"] + ([] if text[:1].islower() else ["{}", "it's {}"])
        return SaidValue(rng.choice(ways).format(text), False)
    row = clause_row_of(words, name)
    forms, sentences = row.usable(kind) if row else ((), ())
    if (
        _is_new_value(words, name)
        and not is_clear
        and (not forms or rng.random() < NEW_VALUE_SHARE)
    ):
        sentence = rng.random() < 0.5
        form = rng.choice(NEW_VALUES[sentence])
        return _filled(words, name, value, form, sentence, rng, label)
    if not forms or (not is_clear and rng.random() < 0.12):
        told = {label, label.split(" ")[-1]} & {words.noun, words.noun.split(" ")[-1]}
        label = "data" if told and kind.kind == "object" else label
        form = rng.choice(_labelled_forms(kind, label, value, not forms))
        return _filled(words, name, value, form, False, rng, label)
    sentence = bool(sentences) and rng.random() < 0.25
    form = rng.choice(sentences if sentence else forms)
    return _filled(words, name, value, form, sentence, rng, label)


def _is_new_value(words: FunctionWords, name: str) -> bool:
    """Return whether a parameter holds the new value of a change."""
    operation, kind = words.operation, words.kinds[name]
    is_change = operation is not None and operation.sort == "change" and not words.is_placed(name)
    return is_change and kind.kind not in ("identifier", "object", "one_of", "array")


def _labelled_forms(kind: ArgumentKind, label: str, value: Any, is_only: bool) -> Sequence[str]:
    """Return forms that say a value by its parameter's name."""
    if label in ASKING:
        return ("- {v} -", "namely {v}", "I mean {v}")
    if label in WRAPPERS and kind.kind in ("object", "one_of"):
        return ("with {v}", "- {v} -", ": {v}")
    if kind.kind == "quantity_with_unit" and label in (kind.unit, singular(kind.unit)):
        return ("for {v}", "{v}", "- {v} -")
    if kind.kind == "integer" and _is_counted(label):
        return ("{v} {l}", "that is {v} {l}", "{v} {l} in all")
    if kind.kind == "identifier":
        return ("for {lv}", "with {lv}", "for {lv}")
    if kind.kind == "enum" and is_only:
        return ("{l} {v}", "with the {l} {v}", "with {v} as the {l}", "{l}: {v}")
    if kind.kind in ("free_text", "array", "object", "one_of"):
        return ("{l}: {v}", "with the {l} {v}", "with {v} as the {l}", "{l} {v}")
    return LABELLED if len(label) > 2 else LABELLED[:2]


def _is_text(kind: ArgumentKind) -> bool:
    return kind.kind in ("free_text", "integer", "url", "enum") and kind.topic != "query"


def _tells_its_noun(kind: ArgumentKind) -> bool:
    """Return whether an identifier's own letters say what it numbers: "L-301" is a loan."""
    shape = kind.pattern or str((kind.examples or ("",))[0])
    return kind.type == "string" and bool(re.match(r"\^?[A-Z]{1,4}-(?:\d|\\d|\[0-9)", shape))


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
    row = clause_row_of(words, name)
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
    if nouns and not needs_noun:  # whose shape is one that people know
        named = with_optional_name(words, nouns[0], text, rng)
        if named != text:
            return named
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
