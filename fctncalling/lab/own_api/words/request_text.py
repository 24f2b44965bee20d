"""Request texts: a phrase, the values beside it, its wrapping and what stands around it.

A request for an HTTP operation says each value with its noun: an API has hundreds of operations
whose parameters are alike, and "for x" or "with y" alone would leave open which one is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, NamedTuple

from fctncalling.lab.own_api.english import (
    correct_articles,
    enumerated,
    is_plural,
    plural,
    singular,
    with_article,
)
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.clauses import (
    SAID_TOGETHER_SHARE,
    WRAPPERS,
    SaidValue,
    clause_row_of,
    has_flag_words,
    said_span,
    span_parameter_pairs,
    spoken_value_with_noun,
    unsaid_remark,
    verbatim_value,
    with_optional_quotes,
)
from fctncalling.lab.own_api.words.frames import MOODS, RequestFrame, act_table
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.own_clauses import WordedValue, own_clause, own_clauses
from fctncalling.lab.own_api.words.spoken_values import join_with_and, spoken_value
from fctncalling.lab.own_api.words.vocabulary import register_table_phrases, spoken_name

MOST_LABELLED = 4  # values of one object, for a person to say them all
LONGEST_LABEL = 4  # words
_ID_ENDS = frozenset("id ids uuid gid sid guid".split())
_GENERIC = frozenset("id ids number no key".split())
_QUERIES = ("query", "search", "q", "keyword", "search term")
_OF_QUERIES = frozenset(
    {"filter", "filters", "sort", "sorts", "sort by", "order by", "where", "query"}
)
_BARE = frozenset("content text value data id body".split())
_DISCRIMINATORS = frozenset("type object kind".split())
_PLACED = frozenset("from to since until before after via near cc bcc".split())
_WAYS = {"origin": "from", "destination": "to"}
_DAYS = frozenset("date day time".split())
_NUMBERS = ("integer", "number", "quantity_with_unit")
_MOMENTS = ("date", "datetime", "time", "month", "year")


class LabelledValue(NamedTuple):
    """A value in words and its noun: ("use type", "marketing")."""

    label: str
    text: str
    kind: str

    def phrase(self, determiner: str = "the") -> str:
        """Return noun and value: "the use type marketing", "a weight of 3 kg"."""
        if self.label in _PLACED:
            return f"{self.label} {self.text}"
        if self.kind in _NUMBERS and determiner == "the":
            named = re.search(r"[aeiou]", self.label) and len(self.label) > 2
            if is_plural(self.label.split(" ")[-1]):
                return f"{self.text} {self.label}"
            return (
                f"{with_article(self.label)} of {self.text}"
                if named
                else str(self.label) + (f" {self.text}")
            )
        return f"{determiner} {self.label} {self.text}".strip()


def can_be_said(words: FunctionWords, name: str, value: Any) -> bool:
    """Return whether a person would say a value: a nested one needs few keys, each with a noun."""
    kind = words.kinds[name]
    if kind.kind == "boolean":
        return kind.required or has_flag_words(words, name)
    if kind.kind not in ("object", "one_of", "array"):
        return True
    if kind.kind in ("object", "one_of") and words.label(name) in _OF_QUERIES:
        return False
    found = list(_leaves(kind, value, words.label(name), Random(0), _repeated(words)))
    labels = [each.label for each in found]
    if len(set(labels)) < len(labels) or len(labels) > MOST_LABELLED or not labels:
        return False
    return all(0 < len(each.split()) <= LONGEST_LABEL and each.isascii() for each in labels)


def _repeated(words: FunctionWords) -> str:
    """Return the key by which a body repeats the number of the path's thing; "" for none."""
    return words.primary if words.primary and f"{{{words.primary}}}" in words.path else ""


def repeats_thing(words: FunctionWords, value: Any) -> bool:
    """Return whether a body has the number of the path's thing in it."""
    return isinstance(value, Mapping) and _repeated(words) in value


def _leaves(
    kind: ArgumentKind, value: Any, label: str, rng: Random, unsaid: str = ""
) -> Iterator[LabelledValue]:
    """Yield the innermost values with their nouns; the only value of a key goes unsaid.

    `unsaid`: the key that repeats the number of the thing.
    """
    if isinstance(value, Mapping):
        rest = {name: each for name, each in value.items() if name != unsaid}
        yield from _of_object(kind, rest, label, rng)
    elif isinstance(value, list) and kind.item and any(isinstance(e, Mapping) for e in value):
        yield from _of_items(kind.item, value, label, rng)
    elif isinstance(value, bool):
        yield LabelledValue("", "", "boolean")  # a nested flag, which has no wording
    else:
        if isinstance(value, list):
            label = singular(label) if len(value) == 1 else plural(singular(label))
        elif (
            is_plural(label.split(" ")[-1]) and kind.kind not in _NUMBERS and "," not in str(value)
        ):
            label = singular(label)
        inner = kind.item or kind
        text = spoken_value(kind, value, rng)
        is_prose = kind.kind == "free_text" and len(text.split()) > 3
        quoted = f'"{text}"' if is_prose else with_optional_quotes(kind, text, "", rng)
        yield LabelledValue(label, quoted, inner.kind)


def _of_object(
    kind: ArgumentKind, value: Mapping[str, Any], label: str, rng: Random
) -> Iterator[LabelledValue]:
    keys = kind.keys_of(value)
    only = {name: e for name, e in value.items() if name in keys and len(keys[name].values) == 1}
    sort = next((str(e) for name, e in only.items() if name in _DISCRIMINATORS), "")
    rest = {name: each for name, each in value.items() if name not in only}
    for name, each in rest.items():
        if name not in keys:
            yield LabelledValue("", "", "")
            continue
        own = " ".join(w for w in spoken_name(name).split() if w not in _ID_ENDS)
        if sort and not own and label in WRAPPERS:
            own = spoken_name(sort)
        yield from _leaves(keys[name], each, _within(label, own, alone=len(rest) == 1), rng)


def _within(label: str, own: str, *, alone: bool) -> str:
    """Return the noun of a key within an object: "shared link access", "name" of data."""
    if not own or (alone and own in _BARE):
        return label
    if own in _PLACED and label not in WRAPPERS:
        return ""  # both ends of a filter
    if label in WRAPPERS or own.startswith(label) or is_plural(label.split(" ")[-1]):
        return own
    kept = [word for word in label.split() if word not in own.split()]
    return " ".join([*kept, own])


def _of_items(
    kind: ArgumentKind, value: Sequence[Any], label: str, rng: Random
) -> Iterator[LabelledValue]:
    one = label if label in WRAPPERS else singular(label)
    parts = [list(_leaves(kind, each, one, rng)) for each in value]
    if len(parts) == 1:
        yield from parts[0]
    elif all(len(each) == 1 for each in parts) and len({each[0].label for each in parts}) == 1:
        texts = [each[0].text for each in parts]
        yield LabelledValue(plural(parts[0][0].label), join_with_and(texts, rng), "array")
    else:
        yield LabelledValue("", "", "")


def said_values(
    words: FunctionWords, arguments: Mapping[str, Any], mood: str, rng: Random
) -> list[SaidValue]:
    """Return clauses and sentences for all values that stand beside a phrase."""
    found: list[SaidValue] = []
    labelled: list[LabelledValue] = []
    for name, value in arguments.items():
        if str(value) in arguments and words.kinds[name].values:
            continue  # names the form that is said
        row = clause_row_of(words, name)
        if isinstance(value, bool) or (row is not None and row.is_clear):
            found.append(verbatim_value(words, name, value, rng))
            continue
        label, noun = words.label(name), words.nouns(name)[0]
        label = noun if label in _GENERIC and noun != "one" else label
        leaves = _leaves(words.kinds[name], value, label, rng, _repeated(words))
        labelled += [LabelledValue(_told(words, e), e.text, e.kind) for e in leaves]
    found.sort(key=lambda each: "order" in each.text.split())  # "sorted by name in ... order"
    if labelled:
        found.insert(0, _together(words, labelled, mood, rng))
    return found


def _told(words: FunctionWords, value: LabelledValue) -> str:
    """Return a label as people say it: reply-to address, the name of a person who books."""
    label = re.sub(r"(?<=\w) at$", " time", value.label)
    label = re.sub(r"^(min|max)(?= )", r"\1imum", label)
    if value.kind in (*_MOMENTS, "identifier", "place"):
        label = _WAYS.get(label, label)
    if value.kind == "email" and label not in _PLACED and not re.search(r"mail|address", label):
        return f"{label.replace(' ', '-')} address"
    return label if label not in WRAPPERS or value.kind != "identifier" else words.noun


def _together(
    words: FunctionWords, labelled: Sequence[LabelledValue], mood: str, rng: Random
) -> SaidValue:
    """Return one clause or sentence for several values: "with the front x and the back y"."""
    sort = words.operation.sort if words.operation else "other"
    if sort == "change":
        return _changed(labelled, mood, rng)
    days = [each for each in labelled if each.kind in _MOMENTS]
    day = days[0] if len(days) == 1 and days[0].label in _DAYS else None
    placed = [each.phrase() for each in labelled if each.label in _PLACED]
    placed += [f"{'on' if day.kind == 'date' else 'at'} {day.text}"] if day else []
    named = [each for each in labelled if each.label not in _PLACED and each is not day]
    if len(named) == 1 and not placed:
        return _alone(named[0], sort, mood, rng)
    if not placed and rng.random() < 0.2 and not any(e.kind in _NUMBERS for e in named):
        parts = [f"the {each.label} {_be(each.label)} {each.text}" for each in named]
        return SaidValue(enumerated(parts), True)
    if not placed and mood != "ask" and rng.random() < 0.12:
        return SaidValue(f": {', '.join(each.phrase('').strip() for each in named)}", False)
    clause = f"with {enumerated([each.phrase() for each in named])}" if named else ""
    return SaidValue(" ".join([*placed, clause]).strip(), False)


def _alone(value: LabelledValue, sort: str, mood: str, rng: Random) -> SaidValue:
    label, text, kind = value
    if label in ("name", "title") and sort == "make":
        return SaidValue(
            rng.choice((f"called {text}", f"named {text}", f"with the {label} {text}")), False
        )
    if label in _QUERIES and sort == "other":
        return SaidValue(f"for {text}", False)
    if label in _QUERIES:
        return SaidValue(
            rng.choice((f"with {text} in it", f"that match {text}", f"matching {text}")), False
        )
    if kind == "identifier" and sort in ("look", "search"):
        return SaidValue(f"for the {label} {text}", False)
    if rng.random() < 0.25 and kind not in _NUMBERS:
        return SaidValue(f"the {label} {_be(label)} {text}", True)
    return SaidValue(f"with {value.phrase()}", False)


def _changed(labelled: Sequence[LabelledValue], mood: str, rng: Random) -> SaidValue:
    """Return what something is changed to: "and set the title to x and the text to y"."""
    pairs = enumerated([f"the {each.label} to {each.text}" for each in labelled])
    if mood in ("do", "want") and rng.random() < 0.5:
        return SaidValue(f"and set {pairs}", False)
    if rng.random() < 0.4:
        parts = [f"the new {each.label} {_be(each.label)} {each.text}" for each in labelled]
        return SaidValue(enumerated(parts), True)
    return SaidValue(f"{rng.choice(('set', 'set', 'change'))} {pairs}", True)


def _be(label: str) -> str:
    return "are" if is_plural(label.split(" ")[-1]) else "is"


REGISTERS = ("plain", "plain", "polite", "terse", "chatty")
BECAUSE_SHARE = 0.03
_PLURAL = [
    tuple(pair.split("/"))
    for pair in (
        "is/are, was/were, has/have, still has/still have, asks/ask, wants/want, doesn't/don't, "
        "does/do, goes/go, needs/need"
    ).split(", ")
]


@dataclass(frozen=True)
class SaidCall:
    """Words of one call: the phrase with its clauses, and the sentences behind it."""

    phrase: str
    mood: str
    sentences: tuple[str, ...]


def said_call(
    words: FunctionWords, frame: RequestFrame, arguments: Mapping[str, Any], rng: Random
) -> SaidCall:
    """Return a call in words: what the frame has slots for within it, the rest behind it."""
    text = frame.text
    for name in frame.parameters:
        if words.clauses is not None and frame.source == "file":
            form = text.replace(f"{{{name}}}", "{}")
            text = own_clause(words, name, arguments[name], rng, form)
        else:
            value = arguments[name]
            is_worded = isinstance(value, WordedValue)
            said = value.text if is_worded else spoken_value_with_noun(words, name, value, rng)
            text = text.replace(f"{{{name}}}", said)
    text = re.sub(r"\b(?:on|about|with) (?:some|any)thing by\b", "by", text)
    rest = [name for name in arguments if name not in frame.parameters]
    if words.clauses is not None:
        text += own_clauses(words, [n for n in rest if n in words.clauses], arguments, rng)
        rest = [name for name in rest if name not in words.clauses]
        if not rest:
            return SaidCall(text, frame.mood, ())
    if words.method:
        values = {name: arguments[name] for name in rest}
        return _assembled(text, frame.mood, said_values(words, values, frame.mood, rng), rng)
    together = [pair for pair in span_parameter_pairs(words) if {*pair} <= {*rest}]
    together = together[:1] if rng.random() < SAID_TOGETHER_SHARE else []
    if len(rest) > 1 and rng.random() < 0.35:
        rng.shuffle(rest)
    spans = [said_span(words, pair, arguments, rng) for pair in together]
    alone = [name for name in rest if not any(name in pair for pair in together)]
    parts = [verbatim_value(words, name, arguments[name], rng) for name in alone]
    parts = spans + parts if rng.random() < 0.6 else parts + spans
    if remark := unsaid_remark(words, arguments, rng):
        parts.append(
            SaidValue(f"- {remark}", False) if rng.random() < 0.6 else SaidValue(remark, True)
        )
    return _assembled(text, frame.mood, parts, rng)


def several_things(words: FunctionWords, name: str, values: Sequence[Any], rng: Random) -> str:
    """Return several things of a kind as "A and B", now and then behind what they are."""
    texts = [spoken_value(words.kinds[name], each, rng) for each in values]
    nouns, front = words.thing_nouns() if name == words.primary else (), ""
    if words.method and nouns:
        front = f"{rng.choice(('', 'the '))}{plural(nouns[0])} "
    elif nouns and rng.random() < 0.3:
        front = words.filled("{ns} ") if nouns[0] == words.noun else ""
    elif len(texts) == 2 and rng.random() < 0.4:
        front = rng.choice(("both ", "both ", "these two, "))
    return front + join_with_and(texts, rng)


def plural_slot(text: str, name: str) -> str | None:
    """Return a phrase in which a slot is several things; None where it speaks of one."""
    if re.search(r"\b(?:it|one|that|anything|its|itself|another|done with)\b", text):
        return None
    slot = f"{{{name}}}"
    for one, many in _PLURAL:
        text = re.sub(rf"{re.escape(slot)} {one}\b", f"{slot} {many}", text)
        text = re.sub(rf"{one}\b {re.escape(slot)}", f"{many} {slot}", text)
    return None if re.search(rf"{re.escape(slot)} [a-z]+s\b|'s {re.escape(slot)}", text) else text


def _assembled(text: str, mood: str, parts: Sequence[SaidValue], rng: Random) -> SaidCall:
    sentences = [part.text for part in parts if part.is_sentence]
    for part in parts:
        if part.is_sentence:
            continue
        if part.text.startswith("- "):
            text += f", {part.text.strip('- ')}"
        elif text.endswith("?") or rng.random() < 0.06:
            sentences.insert(0, part.text)
        else:
            joins = _JOINING.match(part.text) and rng.random() < 0.88
            text += f"{'' if part.text.startswith(':') else ' ' if joins else ', '}{part.text}"
    return SaidCall(text, mood, tuple(sentences))


_JOINING = re.compile(
    r"(?:with|without|for|from|to|in|on|at|by|of|as|and|about|until|till|since|between|so|up to|"
    r"no more|called|named|titled|sorted|ordered|including|starting|saying|that|using|near|"
    r"within|under|over|via|into|weighing|worth|tagged|born)\b"
)
"""Beginnings of clauses that go on without a comma."""


def wrap_in_register(said: SaidCall, register: str, rng: Random) -> str:
    """Return a call's words in a register, with the sentences behind them."""
    pattern = rng.choice(register_table_phrases(said.mood)[register])
    phrase = said.phrase
    if "?" in phrase or phrase.endswith("please") or _says_me_twice(pattern, phrase):
        pattern = "{p}"
    text = pattern.replace("{p}", phrase)
    if rng.random() < BECAUSE_SHARE and not text.endswith(("?", "!", ".")):
        text = f"{text}, {rng.choice(register_table_phrases('frame')['because'])}"
    text = _ended(text, register, rng)
    for each in said.sentences:
        if rng.random() < 0.2 and not text.endswith(("?", "!")):
            text = f"{text.rstrip('.')}, {each}."
        else:
            text = f"{text} {_capital(each)}."
    return text


def _says_me_twice(pattern: str, phrase: str) -> bool:
    return "help me" in pattern and bool(re.match(r"\w+ me\b", phrase))


def _ended(text: str, register: str, rng: Random) -> str:
    text = re.sub(r"\?+(?=\?)", "", text) if register != "terse" else text
    if text.endswith(("?", "!", ".")):
        return text
    return text + ("!" if rng.random() < 0.06 else ".")


def _capital(text: str) -> str:
    is_code = re.search(r"[@\d]", text.split(" ")[0])  # whose letters say which one it is
    return text if is_code else text[:1].upper() + text[1:]


def request_text(said: Sequence[SaidCall], rng: Random) -> str:
    """Return the request for one or several calls."""
    register = rng.choice(REGISTERS)
    text = wrap_in_register(said[0], register, rng)
    for each in said[1:]:
        joints = register_table_phrases("frame")["joins"]
        has_mark = text.endswith(("?", "!"))
        joint = rng.choice([e for e in joints if e.startswith(".")] if has_mark else joints)
        same = register if rng.random() < 0.5 else rng.choice(("plain", "terse"))
        following = joint.replace("{q}", wrap_in_register(each, same, rng))
        following = following.lstrip(".") if has_mark else following
        text = f"{text.rstrip('.')}{' ' if joint.startswith('and') else ''}{following}"
    return framed_text(text, register, rng)


def framed_text(text: str, register: str, rng: Random) -> str:
    """Return a whole request, now and then between a greeting, an aside and thanks, polished."""
    frame = register_table_phrases("frame")
    text = _capital(text)
    greeting = ""
    if rng.random() < {"polite": 0.35, "terse": 0.05}.get(register, 0.15):
        greeting = rng.choice(frame["greetings"])
    before = behind = ""
    if register != "terse" and rng.random() < 0.08:
        aside = rng.choice(frame["asides"])
        before, behind = (f"{aside} ", "") if rng.random() < 0.5 else ("", f" {aside}")
    if greeting:
        mark = rng.choice((", ", "! ", ". "))
        if mark == ", " and not before:
            text = _small_first(text)
        before = f"{greeting}{'! ' if before and mark == ', ' else mark}{before}"
    text = f"{before}{text}{behind}"
    if rng.random() < {"polite": 0.3, "terse": 0.04}.get(register, 0.1):
        text = f"{text} {rng.choice(frame['endings'])}"
    return _polished(text, register, rng)


def _polished(text: str, register: str, rng: Random) -> str:
    """Return a text with its articles, spaces and marks right; hurried ones lose some of these."""
    text = correct_articles(re.sub(r"\s+", " ", text).strip())
    text = re.sub(r" ([,.?!;:])(?!\w)", r"\1", text)
    text = re.sub(r"\.{2,}|(?<=[?!])\.|,(?=[.?!])", lambda m: "." if m[0][0] == "." else "", text)
    text = re.sub(r"(?<=[?!])\.", "", text)
    if register == "terse":
        if rng.random() < 0.6:
            text = _small_first(text)
        if text.endswith(".") and rng.random() < 0.7:
            text = text[:-1]
    elif text.endswith(".") and rng.random() < 0.12:
        text = text[:-1]
    return text


def _small_first(text: str) -> str:
    """Return a text that begins with a small letter, unless it begins with a name or a number."""
    word = re.match(r"A(?= )|[A-Z][a-z']+", text)
    if word is not None and word[0].lower() in _own_words():
        return text[:1].lower() + text[1:]
    return text


@cache
def _own_words() -> frozenset[str]:
    """Return the words of the tables: what begins with another one may begin with a name."""
    texts: list[str] = []
    for act in act_table():
        texts += [phrase for phrases in act.phrases.values() for phrase in phrases]
    for mood in MOODS:
        texts += [form for forms in register_table_phrases(mood).values() for form in forms]
    return frozenset(re.findall(r"[a-z']+", " ".join(texts).lower())) - {"i", "i'd", "i'm", "i've"}
