"""Clauses: one planned call in words, in one of the forms of the grammar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random

from fctncalling.lab.forge.plan import PlannedCall, Value
from fctncalling.lab.forge.words.grammar import (
    Frame,
    FrameSlot,
    Phrase,
    Sequence,
    expand_choices,
    frames,
    guards_allow,
    parse,
    patterns,
    read_table,
)
from fctncalling.lab.forge.words.literals import strip_marks
from fctncalling.lab.forge.words.noun_phrases import NounPhrases
from fctncalling.lab.forge.words.turn_check import arguments_of, says_value
from fctncalling.lab.forge.words.views import slot_text

_MAY_STAY_UNSAID = frozenset({"access_token"})
_CLOSED = frozenset({"say", "ask", "know"})  # forms that take nothing behind them
_TRIES = 4  # frames of one form
_SPACES = re.compile(" +(?=[ ,])")


@dataclass(frozen=True)
class Clause:
    """One request in words."""

    form: str
    text: str
    frame: Frame
    sentences: tuple[str, ...] = ()  # arguments that follow in sentences of their own


def clause(
    call: PlannedCall, forms: Iterable[str], nouns: NounPhrases, used: frozenset[Frame]
) -> Clause | None:
    """Return a call worded in one of the forms, None where no frame can say it.

    Frames that were `used` before are taken only where nothing else is left.
    """
    before = list(nouns.discourse.mentions)
    for frame in _in_order(call, forms, nouns, used):
        made = _worded(frame, call, nouns)
        if made is not None:
            return made
        nouns.discourse.mentions[:] = before
    return None


def _in_order(
    call: PlannedCall, forms: Iterable[str], nouns: NounPhrases, used: frozenset[Frame]
) -> Iterator[Frame]:
    """Yield frames to try, form by form; those for a request without its value mostly first."""
    values, kinds = arguments_of(call), _kinds(call, nouns)
    fitting = {
        form: [each for each in frames()[call.function][form] if guards_allow(each, values, kinds)]
        for form in forms
    }
    if any(kind == "blank" for kind in kinds.values()) and nouns.draw.random() < 0.8:
        for_blank = [each for options in fitting.values() for each in options if each.is_for_blank]
        nouns.draw.shuffle(for_blank)
        yield from for_blank
    for options in fitting.values():
        nouns.draw.shuffle(options)
        options.sort(key=used.__contains__)
        yield from options[:_TRIES]


def aim_clause(call: PlannedCall, nouns: NounPhrases) -> str | None:
    """Return what the user may be after with a call, None where nothing is listed."""
    values, kinds = arguments_of(call), _kinds(call, nouns)
    options = [each for each in frames()[call.function]["aim"] if guards_allow(each, values, kinds)]
    return fill_frame(nouns.draw.choice(options).parts, call, nouns) if options else None


def _kinds(call: PlannedCall, nouns: NounPhrases) -> dict[str, str]:
    kinds = {name: value.said_kind or value.kind for name, value in call.arguments.items()}
    if (value := call.arguments.get("destination")) is not None:
        kinds["destination"] = "folder" if nouns.facts.kind_of(value) == "folder" else "file"
    blanks = {name: "blank" for name, value in call.arguments.items() if nouns.is_blank(value)}
    return {**kinds, **blanks}


def _worded(frame: Frame, call: PlannedCall, nouns: NounPhrases) -> Clause | None:
    covered = {guard.argument for guard in frame.guards if guard.test == "="}
    text = fill_frame(frame.parts, call, nouns, covered)
    if text is None:
        return None
    guarded = [guard.argument for guard in frame.guards if guard.test == "="]
    if not all(_said_by(text, argument, call) for argument in guarded):
        return None
    sentences: list[str] = []
    added_to = False
    for name, value in call.arguments.items():
        if name in covered or _unsaid(name, value, nouns):
            continue
        added = _extra(name, call, nouns, sentence=frame.form in _CLOSED)
        if added is None:
            return None
        how, words = added
        if how == "phrase":
            comma = added_to or " with " in text or words.startswith(("paid", "charged"))
            text = f"{text}{', ' if comma else ' '}{words}"
            added_to = True
        else:
            sentences.append(words)
    return Clause(frame.form, text, frame, tuple(sentences))


def _said_by(text: str, argument: str, call: PlannedCall) -> bool:
    """Tell whether a text says the argument that a guard covers, where the plan wants it said."""
    value = call.arguments.get(argument)
    if value is None or value.provenance != "said_now":
        return True
    return says_value(strip_marks(text), value)


def _unsaid(name: str, value: Value, nouns: NounPhrases) -> bool:
    """Tell whether the words may leave an argument to the reader."""
    if nouns.is_blank(value):
        return True
    if value.kind in _MAY_STAY_UNSAID:
        said = value.provenance in ("said_now", "inferred")
        return not said or nouns.discourse.said_in(nouns.turn, value.value)
    if value.provenance == "inferred":
        return value.said is None
    return value.provenance == "flag" and value.value in (False, None)


def token_sentence(call: PlannedCall, nouns: NounPhrases) -> str | None:
    """Return a sentence with a call's access token where no words of its turn said it yet."""
    for name, value in call.arguments.items():
        if value.kind in _MAY_STAY_UNSAID and not _unsaid(name, value, nouns):
            added = _extra(name, call, nouns, sentence=True)
            return None if added is None else f"{added[1]}."
    return None


def _extra(
    name: str, call: PlannedCall, nouns: NounPhrases, *, sentence: bool
) -> tuple[str, str] | None:
    entry = _extras().get(f"{call.function}.{name}") or _extras().get(name)
    if entry is None:
        return None
    how = "sentence" if sentence or nouns.draw.random() < 0.4 else "phrase"
    text = fill_frame(nouns.draw.choice(entry[how]), call, nouns)
    return None if text is None else (how, text)


@cache
def _extras() -> dict[str, dict[str, tuple[Sequence, ...]]]:
    return {
        name: {how: tuple(parse(line.strip()) for line in text.strip().splitlines())
               for how, text in entry.items()}
        for name, entry in read_table("extras").items()
    }  # fmt: skip


def fill_frame(
    parts: Sequence, call: PlannedCall, nouns: NounPhrases, covered: set[str] | None = None
) -> str | None:
    """Return a frame's text with its slots filled, None where one cannot be."""
    covered = set() if covered is None else covered
    texts = []
    for part in expand_choices(parts, nouns.draw):
        if isinstance(part, str):
            texts.append(part)
            continue
        if isinstance(part, Phrase):
            texts.append(nouns.place if part.name == "place" else lexical(part, nouns.draw))
            continue
        nouns.before = "".join(texts)
        found = slot_text(part, call, nouns)
        if found is None:
            return None
        texts.append(found[0])
        covered.update((part.argument, *found[1]))
    return _SPACES.sub("", "".join(texts)).strip().replace(" of all the ", " of the ")


SETTING = tuple(
    "subject department colleague project event deliverable one_relative relatives relative "
    "place".split()
)
"""Phrases of the lexicon that stay the same through a task, each made of earlier ones only."""


def lexical(phrase: Phrase, draw: Random) -> str:
    """Return one wording of a phrase of the lexicon; of the task's setting its mark, "<event>"."""
    if phrase.name in SETTING:
        return f"<{phrase.name}>"
    return pattern_text(draw.choice(patterns("lexicon")[phrase.name]), draw)


def pattern_text(parts: Sequence, draw: Random) -> str:
    """Return a pattern of the lexicon as a text."""
    return "".join(_texts(parts, draw)).replace("  ", " ").strip()


def _texts(parts: Sequence, draw: Random) -> Iterator[str]:
    for part in expand_choices(parts, draw):
        if isinstance(part, FrameSlot):
            raise ValueError(f"the lexicon has no argument {part.argument!r}; write it in a frame")
        yield lexical(part, draw) if isinstance(part, Phrase) else part
