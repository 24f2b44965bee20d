"""Request texts: a phrase, the values beside it, greetings and asides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from fctncalling.lab.own_api.english import (
    correct_articles,
    enumerated,
    plural,
    singular,
    with_articles_as_written,
)
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.clauses import (
    SaidValue,
    spoken_value_with_noun,
    with_optional_quotes,
)
from fctncalling.lab.own_api.words.frames import MOODS, RequestFrame, act_table
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.labelled_values import said_values
from fctncalling.lab.own_api.words.spoken_values import WordedValue, join_with_and, spoken_value
from fctncalling.lab.own_api.words.vocabulary import register_table_phrases, word_table

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
    """Words of one call: the phrase with its clauses, and the sentences after it."""

    phrase: str
    mood: str
    sentences: tuple[str, ...]


def said_call(
    words: FunctionWords, frame: RequestFrame, arguments: Mapping[str, Any], rng: Random
) -> SaidCall:
    """Return a call in words: slots within the frame, other values after it."""
    text = with_articles_as_written(frame.text) if frame.is_users else frame.text
    for name in frame.parameters:
        if words.clauses is not None and frame.source == "file" and not words.method:
            form = text.replace(f"{{{name}}}", "{}")
            text = own_clause(words, name, arguments[name], rng, form)
        else:
            slot, said = f"{{{name}}}", spoken_value_with_noun(words, name, arguments[name], rng)
            text = text.replace(slot, _without_noun(said, text.partition(slot)[0]))
    rest = [name for name in arguments if name not in frame.parameters]
    if words.clauses is not None:
        text += own_clauses(words, [n for n in rest if n in words.clauses], arguments, rng)
        rest = [name for name in rest if name not in words.clauses]
        if not rest:
            return SaidCall(text, frame.mood, ())
    values = {name: arguments[name] for name in rest}
    noun = _noun_of_list(words, text)
    parts = said_values(words, values, frame.mood, rng, noun)
    for part in parts:
        if part.is_adjective:
            text = re.sub(rf"\b(?={re.escape(noun)}\b)", f"{part.text} ", text, count=1)
    parts = [part for part in parts if not part.is_adjective]
    return _assembled(text, frame.mood, parts, rng)


def _noun_of_list(words: FunctionWords, text: str) -> str:
    """Return the noun of a list that a phrase has, for adjectives before it; "" if none."""
    operation = words.operation
    nouns = (operation.things, operation.head) if operation and operation.lists_several else ()
    return next((noun for noun in nouns if re.search(rf"\b{re.escape(noun)}\b", text)), "")


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
    if said is None:
        return " ".join(each.text for each in said_values(words, {name: value}, "do", rng))
    return said


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
    """Return the values of an object's keys, each in its clause or after the key."""
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


def _without_noun(said: str, before: str) -> str:
    """Return a value without the noun that a phrase has before its slot: "my booking {id}"."""
    noun = (before.split() or [""])[-1]
    front, at, behind = f" {said}".partition(f" {noun} ")
    is_noun = noun and at and re.fullmatch(r"(?: [a-z-]+){0,2}", front)
    return behind if is_noun else said


def several_things(words: FunctionWords, name: str, values: Sequence[Any], rng: Random) -> str:
    """Return several things of a kind as "A and B", of an HTTP API after their noun."""
    texts = [spoken_value(words.kinds[name], each, rng) for each in values]
    nouns = words.thing_nouns() if words.method and name == words.primary else ()
    front = f"{rng.choice(('', 'the '))}{plural(nouns[0])} " if nouns else ""
    return front + join_with_and(texts, rng)


def plural_slot(text: str, name: str) -> str | None:
    """Return a phrase with a plural in a slot; None if it speaks of one thing."""
    if re.search(r"\b(?:it|one|that|anything|its|itself|another|done with)\b", text):
        return None
    slot = f"{{{name}}}"
    for one, many in _PLURAL:
        text = re.sub(rf"{re.escape(slot)} {one}\b", f"{slot} {many}", text)
        text = re.sub(rf"{one}\b {re.escape(slot)}", f"{many} {slot}", text)
    return None if re.search(rf"{re.escape(slot)} [a-z]+s\b|'s {re.escape(slot)}", text) else text


def _assembled(text: str, mood: str, parts: Sequence[SaidValue], rng: Random) -> SaidCall:
    sentences = [part.text for part in parts if part.is_sentence]
    is_apart = False
    text = text if all(part.is_sentence for part in parts) else text.removesuffix(", please")
    for part in parts:
        if part.is_sentence:
            continue
        if part.text.startswith("- "):
            text += f", {part.text.strip('- ')}"
        elif text.endswith("?") or rng.random() < 0.03:
            sentences.insert(0, part.text)
        else:
            joins = _JOINING.match(part.text) and not is_apart and rng.random() < 0.92
            text += f"{'' if part.text.startswith(':') else ' ' if joins else ', '}{part.text}"
        is_apart = part.text.startswith("- ")
    return SaidCall(text, mood, tuple(sentences))


_JOINING = re.compile(
    r"(?:with|without|for|from|to|in|on|at|by|of|as|and|about|until|till|since|between|so|up to|"
    r"no more|called|named|titled|sorted|ordered|including|starting|saying|that|using|near|"
    r"within|under|over|via|into|weighing|worth|tagged|born)\b"
)
"""Beginnings of clauses that go on without a comma."""


def wrap_in_register(said: SaidCall, register: str, rng: Random) -> str:
    """Return a call's words in a register, followed by its sentences."""
    pattern = rng.choice(register_table_phrases(said.mood)[register])
    phrase = said.phrase
    says_me_twice = "help me" in pattern and re.match(r"\w+ me\b", phrase)
    if "?" in phrase or phrase.endswith("please") or says_me_twice:
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
    opens = _OPENS.match(text) is not None  # "Hello. Excuse me, hey": one is enough
    if not opens and rng.random() < {"polite": 0.3, "terse": 0.05}.get(register, 0.12):
        greeting = rng.choice(frame["greetings"])
    before = behind = ""
    if register != "terse" and rng.random() < 0.05:
        aside = rng.choice(frame["asides"])
        before, behind = (f"{aside} ", "") if rng.random() < 0.5 else ("", f" {aside}")
    if greeting:
        mark = rng.choice((", ", "! ", ". "))
        if mark == ", " and not before:
            text = _small_first(text)
        before = f"{greeting}{'! ' if before and mark == ', ' else mark}{before}"
    text = f"{before}{text}{behind}"
    if rng.random() < {"polite": 0.2, "terse": 0.03}.get(register, 0.08):
        text = f"{text} {rng.choice(frame['endings'])}"
    return _polished(text, register, rng)


_OPENS = re.compile(
    r"(?:excuse|sorry|one question|quick|just|say|hey|hi|hello|so|well|ok|next|good|go)\b", re.I
)


def _polished(text: str, register: str, rng: Random) -> str:
    """Return a text with its articles, spaces and marks right; hurried ones lose some of these."""
    text = correct_articles(re.sub(r"\s+", " ", text).strip())
    text = re.sub(r" ([,.?!;:])(?!\w)", r"\1", text)
    text = re.sub(r"\b(over|to|in|for|at|on) \1\b", r"\1", text)
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
    """Return the words of the tables: another first word may be a name."""
    texts: list[str] = []
    for act in act_table():
        texts += [phrase for phrases in act.phrases.values() for phrase in phrases]
    for mood in MOODS:
        texts += [form for forms in register_table_phrases(mood).values() for form in forms]
    return frozenset(re.findall(r"[a-z']+", " ".join(texts).lower())) - {"i", "i'd", "i'm", "i've"}
