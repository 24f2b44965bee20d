"""Twins: two tasks alike but for what decides whether a value is open.

Twins of one sort have the same request, which leaves a value out. One function doc requires that
parameter and has a default for another one, whose value is said; in the other doc the two have
changed places. Twins of the other sort have the same docs; their request names two values, and the
sentence behind it settles which of them is meant, or leaves it open. So lengths, counts and ways of
speaking are the same whether something has to be asked or not.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.checkers.clarify import split_words
from fctncalling.lab.forge.forged_entry import NoTaskDrawn
from fctncalling.lab.forge.single_turn.category_profiles import PROFILES, draw_number
from fctncalling.lab.forge.single_turn.frames import Domain, default_value, domains
from fctncalling.lab.forge.single_turn.made_calls import (
    MadeArgument,
    MadeCall,
    draw_parameter_value,
    request_for_call,
)
from fctncalling.lab.forge.single_turn.made_functions import (
    MadeFunction,
    MadeParameter,
    document_function,
)
from fctncalling.lab.forge.single_turn.python_tasks import (
    distinct_frames,
    function_of_frame,
    with_context,
)
from fctncalling.lab.forge.single_turn.value_kinds import (
    NUMBER_WORDS,
    DrawnValue,
    ValueKind,
    enum_words,
    word_list,
)

FEWEST_VALUES = 3  # that a value nobody said may have
TOLD = "says elsewhere the value that it leaves open"
UNEVEN = "speaks more of one candidate than of the other"


def guess_chance(kind: ValueKind) -> float:
    """Return the chance of a guess at a value of a kind by one who knows how it is drawn.

    It is 0 for decimals, dates, times, codes and addresses, which are drawn from hundreds.
    """
    if kind.name == "enum":
        return 1 / len(enum_words(kind))
    if kind.name == "string":
        return 1 / len(word_list(kind.words))
    if kind.name in ("int", "whole"):
        low, high, *step = (int(arg) for arg in kind.args)
        return 1 / len(range(low, high + 1, *step))
    return 0.0


def withheld_fault(
    question: str, docs: Sequence[dict[str, Any]], parameter: MadeParameter, value: DrawnValue
) -> str | None:
    """Return why a value that nobody said can be read from the prompt; None where it cannot.

    The values that the doc of the parameter offers do not count, as long as there are
    `FEWEST_VALUES` of them.
    """
    if guess_chance(parameter.kind) > 1 / FEWEST_VALUES:
        return f"{parameter.name} has fewer than {FEWEST_VALUES} values"
    if _is_told(value, f"{question} {_text_of(docs, parameter)}"):
        return TOLD
    return None


def revealed_candidate_fault(
    question: str,
    docs: Sequence[dict[str, Any]],
    parameter: MadeParameter,
    candidates: tuple[DrawnValue, DrawnValue],
) -> str | None:
    """Return why one of two candidates can be told from the other; None where none can.

    The question has to say both as often, and no doc either.
    """
    told = [_count(each.text, question) for each in candidates]
    if told[0] != told[1] or not told[0]:
        return UNEVEN
    documented = _text_of(docs, parameter)
    return UNEVEN if any(_is_told(each, documented) for each in candidates) else None


def _is_told(value: DrawnValue, text: str) -> bool:
    """Whether a text has the words of a value, in any of its forms."""
    words = f" {' '.join(split_words(text))} "
    return any(f" {' '.join(split_words(form))} " in words for form in _forms(value))


def _forms(value: DrawnValue) -> Iterable[str]:
    yield value.text
    for each in value.accepted:
        yield str(each)
        if isinstance(each, int | float):
            yield f"{each:g}"
            if 1 <= each <= len(NUMBER_WORDS) and each == int(each):
                yield NUMBER_WORDS[int(each) - 1]


def _count(text: str, question: str) -> int:
    wanted, words = split_words(text), split_words(question)
    return sum(words[start:][: len(wanted)] == wanted for start in range(len(words)))


def _text_of(docs: Sequence[dict[str, Any]], parameter: MadeParameter) -> str:
    """Return the text of function docs, without the values that the parameter's own doc offers."""
    kept = copy.deepcopy(list(docs))
    if parameter.kind.name == "enum":
        listed = ", ".join(repr(word) for word in enum_words(parameter.kind))
        for doc in kept:
            documented = doc["parameters"]["properties"].get(parameter.name, {})
            documented.pop("enum", None)
            if documented:
                documented["description"] = documented["description"].replace(listed, "")
    return json.dumps(kept, ensure_ascii=False)


_WORDS: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("second_thoughts.json").read_text(encoding="utf-8")
)


class HesitationPair(NamedTuple):
    """Two sentences in which a user wavers between {meant} and {other}: settled, or left open.

    In an open one the two values are put in either order, so that their places say nothing.
    """

    settled: str
    open: str


def second_thoughts(rng: random.Random) -> HesitationPair:
    """Return sentences of second thoughts, settled and open, drawn from the table."""
    return rng.choice((_minds, _merits, _people))(rng)


def _minds(rng: random.Random) -> HesitationPair:
    """Return sentences on a mind: "now sure" and "not unsure" settle it, two others do not."""
    template, (yes, no) = rng.choice(_WORDS["minds"]), rng.choice(_WORDS["adverbs"])
    settled = rng.choice(((yes, _WORDS["sure"]), (no, _WORDS["unsure"])))
    unsettled = rng.choice(((no, _WORDS["sure"]), (yes, _WORDS["unsure"])))
    told = (f"{adverb} {rng.choice(states)}" for adverb, states in (settled, unsettled))
    return HesitationPair(*map(template.format, told))


def _merits(rng: random.Random) -> HesitationPair:
    """Return sentences that weigh: one value against the other, or both alike."""
    template = rng.choice(_WORDS["merits"])
    good, bad = rng.sample(_WORDS["good"], 2), rng.sample(_WORDS["bad"], 2)
    parts = [("{meant}", good[0]), ("{other}", bad[0])]
    rng.shuffle(parts)
    first, second = rng.choice((good, bad))
    return HesitationPair(
        template.format(*parts[0], *parts[1]), template.format("{meant}", first, "{other}", second)
    )


def _people(rng: random.Random) -> HesitationPair:
    """Return sentences of the same words: one of two who have a say decides, or a third one."""
    template, (first, second, third) = rng.choice(_WORDS["votes"]), rng.sample(_WORDS["people"], 3)
    voters = (first, second)
    meant = rng.randrange(2)
    slots = ("meant", "other") if meant == 0 else ("other", "meant")
    return HesitationPair(
        template.format(first, second, *slots, voters[meant], third),
        template.format(first, second, *slots, third, voters[meant]),
    )


PROFILE = PROFILES["clarify"]
ASKABLE = ("string", "enum", "int", "whole", "float", "rate", "date", "time", "code", "email")
"""Kinds of values that a user can say in a few words."""
SAID_SHARE = 0.66  # of the optional parameters

_HANGING = ("and ", "who ", "which ")
Values = Mapping[str, DrawnValue]  # parameter -> value


@dataclass(frozen=True)
class ClarifyDraft:
    """A questioning task before it is an entry."""

    question: str
    docs: list[dict[str, Any]]
    call: MadeCall  # the truth
    parameter: MadeParameter  # which is open, or would be
    candidates: tuple[DrawnValue, ...]  # its value, and the other one that the request names
    is_open: bool


class Twins(NamedTuple):
    """A task in which nothing is missing, and one in which a value is open."""

    complete: ClarifyDraft
    unclear: ClarifyDraft
    domain: str


class _Scene(NamedTuple):
    """Scene that twins share."""

    domain: Domain
    function: MadeFunction
    other_docs: list[dict[str, Any]]
    askable: list[MadeParameter]
    key: int  # seed of what both draw alike

    def docs(self, function: MadeFunction) -> list[dict[str, Any]]:
        listed = [function.doc, *self.other_docs]
        random.Random(f"{self.key} order").shuffle(listed)
        return listed

    def question(self, said: Values, sentence: str = "") -> str:
        rng = random.Random(f"{self.key} words")
        asked = request_for_call(
            call_with_values(self.function, said), rng, question_share=PROFILE.question_share
        )
        return with_context(f"{asked} {sentence}".strip(), self.domain, PROFILE, rng)


def twins_without_value(rng: random.Random) -> Twins:
    """Return twins whose request does not speak of a value. Raises NoTaskDrawn."""
    scene = _scene(rng)
    if len(scene.askable) < 2:
        raise NoTaskDrawn("fewer than two values to ask for")
    silent, loud = rng.sample(scene.askable, 2)
    values = _values(scene, (silent, loud), rng)
    defaults = {each.name: _default(each, values[each.name], rng) for each in (silent, loud)}
    said = {name: value for name, value in values.items() if name != silent.name}
    question = scene.question(said)

    def draft(required: MadeParameter, optional: MadeParameter) -> ClarifyDraft:
        function = _changed(scene, required, optional, defaults[optional.name])
        is_open = required is silent
        [parameter] = (each for each in function.parameters if each.name == silent.name)
        call = call_with_values(function, values if is_open else said)
        value = (values[silent.name],)
        return ClarifyDraft(question, scene.docs(function), call, parameter, value, is_open)

    return Twins(draft(loud, silent), draft(silent, loud), scene.domain.name)


def twins_naming_two_values(rng: random.Random) -> Twins:
    """Return twins whose request names two values of a parameter. Raises NoTaskDrawn."""
    scene = _scene(rng)
    askable = [each for each in scene.askable if not _quotes(each.frame.clauses)]
    if not askable:
        raise NoTaskDrawn("no value to ask for")
    parameter = rng.choice(askable)
    values = _values(scene, (parameter,), rng)
    meant, other = values[parameter.name], draw_parameter_value(parameter, rng)
    _require_sensible(scene.function, {**values, parameter.name: other})
    if not set(map(str, meant.accepted)).isdisjoint(map(str, other.accepted)):
        raise NoTaskDrawn("two candidates that are the same")
    if _style(meant, parameter) != _style(other, parameter):
        raise NoTaskDrawn("two candidates that nobody would name in one breath")
    texts = [meant.text, other.text]
    named, again = rng.sample(texts, 2), rng.sample(texts, 2)
    both = meant._replace(text=" or ".join(named))
    call = call_with_values(scene.function, values)

    def draft(sentence: str, is_open: bool) -> ClarifyDraft:
        first, second = again if is_open else texts
        filled = sentence.format(meant=first, other=second)
        question = scene.question({**values, parameter.name: both}, filled)
        docs = scene.docs(scene.function)
        return ClarifyDraft(question, docs, call, parameter, (meant, other), is_open)

    thoughts = second_thoughts(rng)
    return Twins(draft(thoughts.settled, False), draft(thoughts.open, True), scene.domain.name)


def _style(value: DrawnValue, parameter: MadeParameter) -> tuple[bool, ...]:
    """Return how a value is written: quoted or not, a number in words or digits."""
    text = value.text
    if parameter.kind.name in ("string", "enum", "code", "email"):
        return (text[0] in "'\"",)
    return (any(map(str.isalpha, text)), "," in text, "-" in text)


def call_with_values(function: MadeFunction, values: Values) -> MadeCall:
    """Return a call with some values; a parameter without one goes unsaid."""
    arguments = (MadeArgument(each, values.get(each.name)) for each in function.parameters)
    return MadeCall(function, tuple(arguments))


def _scene(rng: random.Random) -> _Scene:
    domain = rng.choice(domains())
    frames = distinct_frames(domain, draw_number(PROFILE.functions, rng), rng, PROFILE)
    function, *others = (function_of_frame(frame, PROFILE, rng) for frame in frames)
    docs = [each.doc for each in others]
    if len({function.name, *(doc["name"] for doc in docs)}) <= len(docs):
        raise NoTaskDrawn("two functions of one name")
    return _Scene(domain, function, docs, list(_askable(function)), rng.getrandbits(64))


def _askable(function: MadeFunction) -> Iterator[MadeParameter]:
    """Yield the parameters that a request can leave out, and a user can be asked for.

    A clause that begins with "and" or "who" needs the one before it.
    """
    hanging = {
        each.name
        for pair in pairwise((None, *function.parameters))
        if pair[1] is not None and _hangs(pair[1].frame.clauses)
        for each in pair
        if each is not None
    }
    for each in function.parameters:
        can_go = each.frame.name not in function.frame.slots and each.name not in hanging
        is_short = each.kind.name in ASKABLE
        if can_go and is_short and guess_chance(each.kind) <= 1 / FEWEST_VALUES:
            yield each


def _hangs(clauses: Sequence[str]) -> bool:
    return any(clause == "{}" or clause.startswith(_HANGING) for clause in clauses)


def _quotes(clauses: Sequence[str]) -> bool:
    """Whether a value stands in quotes, where two of them would read as one."""
    return any(mark in clause for clause in clauses for mark in "\"'")


def _values(
    scene: _Scene, always: Sequence[MadeParameter], rng: random.Random
) -> dict[str, DrawnValue]:
    """Return values of some parameters, all that are required, and of others by their share."""
    values = {
        each.name: draw_parameter_value(each, rng)
        for each in scene.function.parameters
        if each.required or each in always or rng.random() < SAID_SHARE
    }
    _require_sensible(scene.function, values)
    return values


def _require_sensible(function: MadeFunction, values: Values) -> None:
    if not call_with_values(function, values).is_sensible():
        raise NoTaskDrawn("two arguments that name the same")


def _default(parameter: MadeParameter, value: DrawnValue, rng: random.Random) -> Any:
    """Return a default that is not the value: the frame's own, or a drawn one."""
    default: Any = default_value(parameter.frame)
    if default is None:
        default = draw_parameter_value(parameter, rng).value
    if parameter.kind.bfcl_type == "float":
        default = float(default)
    if default in value.accepted:
        raise NoTaskDrawn("the default is the value")
    return default


def _changed(
    scene: _Scene, required: MadeParameter, optional: MadeParameter, default: Any
) -> MadeFunction:
    """Return the function with one parameter required, and another one with a default."""
    frame, name = scene.function.frame, scene.function.name
    parameters = tuple(
        replace(each, required=True, default=None)
        if each is required
        else replace(each, required=False, default=default)
        if each is optional
        else each
        for each in scene.function.parameters
    )
    rng = random.Random(f"{scene.key} doc")
    return MadeFunction(
        frame, name, parameters, document_function(frame, name, parameters, PROFILE, rng)
    )
