"""Said values: all that a request says beside its phrase, by the tables, else each with its noun.

Of hundreds of operations whose parameters are alike "for x" or "with y" alone would leave open
which one is meant. Nested objects are said by their innermost keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from fctncalling.lab.own_api.english import (
    NUMBERS,
    enumerated,
    is_plural,
    plural,
    singular,
    with_article,
)
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.clauses import (
    SAID_TOGETHER_SHARE,
    SaidValue,
    clause_row,
    filled_form,
    has_flag_words,
    said_by_table,
    said_span,
    span_parameter_pairs,
    spoken_value_with_noun,
    with_optional_quotes,
)
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.spoken_values import (
    address_text,
    join_with_and,
    spoken_value,
)
from fctncalling.lab.own_api.words.vocabulary import spoken_name

MOST_LABELLED = 4  # values of one object, for a person to say them all
LONGEST_LABEL = 4  # words
SHUFFLED_SHARE = 0.35  # of requests whose values come in another order than the parameters
WRAPPERS = frozenset("data body attributes properties payload object request input item".split())
"""Labels of objects that say nothing of what is in them."""
_ID_ENDS = frozenset("id ids uuid gid sid guid".split())
_GENERIC = frozenset("id ids number no key".split())
_OF_QUERIES = frozenset(
    {"filter", "filters", "sort", "sorts", "sort by", "order by", "where", "query"}
)
_BARE = frozenset("content text value data id body".split())
_PLACED = frozenset("from to since until before after via near cc bcc".split())
_NUMBERS = ("integer", "number", "quantity_with_unit")


class LabelledValue(NamedTuple):
    """A value in words and its noun: ("use type", "marketing")."""

    label: str
    text: str
    kind: str
    clause: str = ""  # that says it without its noun, by the table

    def phrase(self, determiner: str = "the") -> str:
        """Return noun and value: "the use type marketing", "a weight of 3 kg"."""
        if self.label in _PLACED:
            return f"{self.label} {self.text}"
        if self.kind in _NUMBERS and determiner == "the":
            if is_plural(last := self.label.split(" ")[-1]):
                has_unit = {last, singular(last)} & {*self.text.split()}
                return self.text if has_unit else f"{self.text} {self.label}"
            return f"{with_article(self.label)} of {self.text}"
        return f"{determiner} {self.label} {self.text}".strip()


UNSAYABLE = LabelledValue("", "", "")


def can_be_said(words: FunctionWords, name: str, value: Any) -> bool:
    """Return whether a person would say a value: a nested one needs few keys, each with a noun."""
    kind = words.kinds[name]
    if name in (words.clauses or {}):
        return True  # in the user's own words
    if kind.kind == "boolean":
        return kind.required or has_flag_words(words, name)
    if kind.kind not in ("object", "one_of", "array"):
        return True
    if kind.kind in ("object", "one_of") and words.label(name) in _OF_QUERIES:
        return False
    labels = [each.label for each in _leaves(kind, value, words.label(name), Random(0))]
    return _are_distinct(labels) and len(labels) <= MOST_LABELLED


def _are_distinct(labels: Sequence[str]) -> bool:
    """Return whether labels are nouns that people say, no two of them alike."""
    are_said = all(0 < len(each.split()) <= LONGEST_LABEL and each.isascii() for each in labels)
    return are_said and 0 < len({*labels}) == len(labels)


def _leaves(kind: ArgumentKind, value: Any, label: str, rng: Random) -> Iterator[LabelledValue]:
    """Yield the innermost values with their nouns; the only value of a key stays unsaid."""
    if isinstance(value, Mapping) and (text := address_text(kind, value)):
        yield LabelledValue(label, text, "place", _clause(kind, label, text, rng))
    elif isinstance(value, Mapping):
        yield from _of_object(kind, value, label, rng)
    elif isinstance(value, list) and kind.item and any(isinstance(e, Mapping) for e in value):
        yield from _of_items(kind.item, value, label, rng)
    elif isinstance(value, bool):
        yield UNSAYABLE  # a nested flag, which has no wording
    else:
        if isinstance(value, list):
            label = singular(label) if len(value) == 1 else plural(singular(label))
        elif kind.kind not in _NUMBERS and "," not in str(value):
            label = singular(label)
        text = spoken_value(kind, value, rng)
        is_prose = kind.kind == "free_text" and len(text.split()) > 3
        quoted = f'"{text}"' if is_prose else with_optional_quotes(kind, text, "", rng)
        yield LabelledValue(
            label, quoted, (kind.item or kind).kind, _clause(kind, label, quoted, rng)
        )


def _clause(kind: ArgumentKind, label: str, text: str, rng: Random) -> str:
    """Return a clause of the table for a value within an object; "" if it has none."""
    row = clause_row(label, kind.kind, kind.description.lower(), "")
    forms = row.forms_of(kind) if row else []
    return filled_form(rng.choice(forms), label, text, row) if row and forms else ""


def _of_object(
    kind: ArgumentKind, value: Mapping[str, Any], label: str, rng: Random
) -> Iterator[LabelledValue]:
    keys = kind.keys_of(value)
    rest = {name: e for name, e in value.items() if name not in keys or len(keys[name].values) != 1}
    for name, each in rest.items():
        if name not in keys:
            yield UNSAYABLE
            continue
        own = " ".join(w for w in spoken_name(name).split() if w not in _ID_ENDS)
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
        yield UNSAYABLE


def said_values(
    words: FunctionWords, arguments: Mapping[str, Any], mood: str, rng: Random, noun: str = ""
) -> list[SaidValue]:
    """Return clauses and sentences for all values beside a phrase, which may have a list's noun."""
    found: list[SaidValue] = []
    labelled: list[LabelledValue] = []
    names = [*arguments]
    pairs = [pair for pair in span_parameter_pairs(words) if {*pair} <= {*names}]
    if pairs and rng.random() < SAID_TOGETHER_SHARE:
        found.append(said_span(words, pairs[0], arguments, rng))
        names = [name for name in names if name not in pairs[0]]
    if rng.random() < SHUFFLED_SHARE:
        rng.shuffle(names)
    for name in names:
        value = arguments[name]
        if name == words.primary and not words.method:
            text = spoken_value_with_noun(words, name, value, rng)
            found.append(SaidValue(f"for {text}", False))
        elif (said := said_by_table(words, name, value, rng, noun)) is not None:
            found.append(said)
        else:
            leaves = [*_labelled(words, name, value, rng)]
            found += [SaidValue(each.clause, False) for each in leaves if each.clause]
            labelled += [each for each in leaves if not each.clause]
    found = _counts_together(found)
    found.sort(key=lambda each: "order" in each.text.split())  # "sorted by name in ... order"
    if labelled:
        found.insert(0, _together(words, labelled, mood, rng))
    return found


def _counts_together(parts: Sequence[SaidValue]) -> list[SaidValue]:
    """Return parts with the counts of people and things as one: "for two adults and a child"."""
    counts = [part for part in parts if _COUNTED.fullmatch(part.text)]
    if len(counts) < 2:
        return [*parts]
    together = enumerated([_COUNTED.fullmatch(part.text)[1] for part in counts])  # type: ignore[index]
    return [SaidValue(f"for {together}", False), *(part for part in parts if part not in counts)]


_COUNTED = re.compile(rf"(?:(?:for|with) |- )((?:\d+|{'|'.join(NUMBERS)}) [a-z]+)(?: -)?")


def _labelled(words: FunctionWords, name: str, value: Any, rng: Random) -> Iterator[LabelledValue]:
    """Yield a value with its noun, an object by its innermost keys if these have nouns."""
    kind, label, noun = words.kinds[name], words.label(name), words.nouns(name)[0]
    is_number = label in _GENERIC or kind.kind == "identifier"
    label = noun if is_number and noun != "one" else label
    leaves = [*_leaves(kind, value, label, rng)]
    is_update = words.operation is not None and words.operation.sort == "change"
    if is_update or not isinstance(value, Mapping):  # whose row is known to be clear or not
        leaves = [each._replace(clause="") for each in leaves]
    if not _are_distinct([each.label for each in leaves]):
        leaves = [LabelledValue(label, spoken_value(kind, value, rng), kind.kind)]
    for each in leaves:
        yield each._replace(label=_told(words, each))


def _told(words: FunctionWords, value: LabelledValue) -> str:
    """Return a label as people say it: reply-to address, the name of a person who books."""
    label = re.sub(r"(?<=\w) at$", " time", value.label)
    label = re.sub(r"^(min|max)(?= )", r"\1imum", label)
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
    placed = [each.phrase() for each in labelled if each.label in _PLACED]
    numbered = [e for e in labelled if e.kind == "identifier" and e.label not in _PLACED | _GENERIC]
    placed += [f"for {each.label} {each.text}" for each in numbered[:1]]
    named = [each for each in labelled if each.label not in _PLACED and each not in numbered[:1]]
    roll = rng.random()
    if not placed and roll < 0.12 and not any(each.kind in _NUMBERS for each in named):
        parts = [f"the {each.label} {_be(each.label)} {each.text}" for each in named]
        return SaidValue(enumerated(parts), True)
    if not placed and mood != "ask" and len(named) > 1 and roll > 0.8:
        return SaidValue(f": {', '.join(each.phrase('').strip() for each in named)}", False)
    clause = f"with {enumerated([each.phrase() for each in named])}" if named else ""
    return SaidValue(" ".join([*placed, clause]).strip(), False)


def _changed(labelled: Sequence[LabelledValue], mood: str, rng: Random) -> SaidValue:
    """Return the new values of a change: "and set the title to x and the text to y"."""
    pairs = enumerated([f"the {each.label} to {each.text}" for each in labelled])
    if mood in ("do", "want") and rng.random() < 0.5:
        return SaidValue(f"and set {pairs}", False)
    if rng.random() < 0.4:
        parts = [f"the new {each.label} {_be(each.label)} {each.text}" for each in labelled]
        return SaidValue(enumerated(parts), True)
    return SaidValue(f"{rng.choice(('set', 'set', 'change'))} {pairs}", True)


def _be(label: str) -> str:
    return "are" if is_plural(label.split(" ")[-1]) else "is"
