"""Single-turn tasks of an own API: one call, several calls, a value that is not said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from fctncalling.checkers.clarify import is_mentioned
from fctncalling.lab.forge.forged_entry import NoTaskDrawn
from fctncalling.lab.forge.own_api.drawn_call import (
    AskableApi,
    DrawnCall,
    RequestDraft,
    draw_call,
    draw_frame,
    draw_value,
    require_apart,
)
from fctncalling.lab.own_api.english import NUMBERS, enumerated, plural, with_article
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.clauses import verbatim_value
from fctncalling.lab.own_api.words.frames import RequestFrame, act_families
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.labelled_values import repeats_thing
from fctncalling.lab.own_api.words.own_clauses import WordedValue, own_clauses
from fctncalling.lab.own_api.words.request_text import (
    ParallelValues,
    SaidCall,
    pluralize_slot,
    request_text,
    said_call,
)
from fctncalling.lab.own_api.words.spoken_values import join_with_and, spoken_value
from fctncalling.lab.own_api.words.vocabulary import register_table_phrases, spaced_words

_SAID_BEHIND = frozenset({"boolean", "array", "object", "one_of"})
_LIKEWISE_SHARE, _LISTED_SHARE = 0.3, 0.3
_CERTAIN = frozenset({"identifier", "person_name"})  # kinds that name one certain thing
_OF_ONE = frozenset({"email", "phone", "url"})  # kinds of values that two things do not share
_IN_ORDER = re.compile(r"\b(?:order|sort|direction)\b")  # nobody asks for a list in both orders
_SAME_AGAIN_SHARE = 0.2  # of several requests in one message, two for one function
_BESIDE_SHARE = 0.7  # of open values that are not the thing itself, where a function has such
FEWEST_VALUES = 3  # of a listed parameter whose value may go unsaid


def single_call_draft(api: AskableApi, rng: Random, function: str) -> RequestDraft:
    """Return a request for one call among all functions."""
    call = draw_call(api, function, rng)
    frame = draw_frame(api, call, rng)
    said = said_call(api.words[function], frame, call.arguments, rng)
    return RequestDraft(request_text([said], rng), [call], [frame])


def several_calls_draft(api: AskableApi, rng: Random, function: str) -> RequestDraft:
    """Return a request for two or three calls, of one function or of several."""
    words = api.words[function]
    roll = rng.random()
    if roll < 0.14 and words.primary is not None and not words.method:
        return _each_with_its_own(api, rng, function)
    if roll < 0.5 and words.primary is not None:
        return _several_things(api, rng, function)
    if roll < 0.62:
        return _twice_otherwise(api, rng, function)
    return _one_after_the_other(api, rng, function)


def _several_things(api: AskableApi, rng: Random, function: str) -> RequestDraft:
    """Return one phrase for several things: "L-311 and L-312"."""
    words = api.words[function]
    primary = words.primary
    assert primary is not None
    first = draw_call(api, function, rng)
    calls = [first]
    for _ in range(rng.choice((1, 1, 1, 1, 2))):
        other = draw_call(api, function, rng, first.arguments).arguments
        fresh = draw_call(api, function, rng).arguments[primary]
        calls.append(DrawnCall(words, {**other, primary: fresh}))
    things = [call.arguments[primary] for call in calls]
    if len(set(map(str, things))) < len(things) or not all(isinstance(e, str) for e in things):
        raise NoTaskDrawn("the same thing twice")
    sorts = {words.kinds[name].kind for name in first.arguments}
    if sorts & _OF_ONE and len(first.arguments) > 1:
        raise NoTaskDrawn("says what belongs to one thing alone")
    if any(repeats_thing(words, value) for value in first.arguments.values()):
        raise NoTaskDrawn("its body repeats the number of the thing")
    calls = [DrawnCall(words, {**first.arguments, primary: each}) for each in things]
    frame = draw_frame(api, first, rng)
    if rng.random() < _LIKEWISE_SHARE:
        return RequestDraft(_and_likewise(words, frame, first, things[1:], rng), calls, [frame])
    text = pluralize_slot(frame.text, primary) if primary in frame.parameters else None
    if text is None:
        raise NoTaskDrawn("speaks of one thing")
    behind = ""
    if rng.random() < _LISTED_SHARE:
        text = text.replace(f"{{{primary}}}", _announced(words, len(things), rng))
        behind = f"{rng.choice((': ', ': ', ' - ', ', namely '))}{join_with_and(things, rng)}"
    frame = replace(frame, text=text)
    given = dict(first.arguments)
    if behind:
        del given[primary]
    else:
        given[primary] = ParallelValues(tuple(things))
    said = said_call(words, frame, given, rng)
    if words.method and re.search(r"\bit\b", " ".join((said.phrase, *said.sentences))):
        raise NoTaskDrawn("speaks of one thing")
    if behind:
        said = replace(said, phrase=f"{said.phrase}{behind}")
    elif len(first.arguments) > 1 and rng.random() < 0.4:
        each = rng.choice((", each of them", " each", ", both the same", " in each case"))
        each = each if len(things) == 2 else " each"
        said = replace(said, phrase=f"{said.phrase}{each}")
    return RequestDraft(request_text([said], rng), calls, [frame])


def _each_with_its_own(api: AskableApi, rng: Random, function: str) -> RequestDraft:
    """Return one phrase for two things that differ in a value: "L-3 to Ann and L-4 to Ben"."""
    words = api.words[function]
    primary = words.primary
    first, other = (draw_call(api, function, rng) for _ in range(2))
    frame = draw_frame(api, first, rng)
    apart = [
        name
        for name, kind in words.kinds.items()
        if name in first.arguments and name in other.arguments and kind.kind not in _SAID_BEHIND
    ]
    changed = [name for name in apart if first.arguments[name] != other.arguments[name]]
    alone = len(changed) < 2 or set(changed) != set(first.arguments)
    if alone or primary not in changed or primary not in frame.parameters:
        raise NoTaskDrawn("differs in nothing else")
    values = {name: other.arguments[name] for name in changed}
    parts = [str(spoken_value(words.kinds[primary], values.pop(primary), rng))]
    for name, value in values.items():
        at = re.search(rf"\b(to|for|with|from|in|on|at|by|is) \{{{name}\}}", frame.text)
        if name in frame.parameters and at is None:
            raise NoTaskDrawn("its place is not told")
        beside = verbatim_value(words, name, value, rng)
        if at is None and beside.is_sentence:
            raise NoTaskDrawn("its place is not told")
        place = f"{at[1]} {spoken_value(words.kinds[name], value, rng)}" if at else beside.text
        parts.append(place)
    second = DrawnCall(words, {name: other.arguments[name] for name in changed})
    said = said_call(words, frame, first.arguments, rng)
    if said.sentences or "?" in said.phrase:
        raise NoTaskDrawn("says more behind")
    joint = rng.choice((" and ", " and ", ", ", ", and ", "; "))
    said = replace(said, phrase=f"{said.phrase}{joint}{' '.join(parts)}")
    return RequestDraft(request_text([said], rng), [first, second], [frame])


def _and_likewise(
    words: FunctionWords,
    frame: RequestFrame,
    first: DrawnCall,
    others: Sequence[Any],
    rng: Random,
) -> str:
    """Return a request for one thing that adds the others: "..., and the same for L-312"."""
    said = said_call(words, frame, first.arguments, rng)
    if words.method and said.sentences:
        raise NoTaskDrawn("says more behind")
    form = rng.choice(register_table_phrases("frame")["likewise"])
    text = form.replace("{o}", join_with_and([str(each) for each in others], rng))
    if text.startswith(","):
        return request_text([replace(said, phrase=f"{said.phrase}{text}")], rng)
    return request_text([replace(said, sentences=(*said.sentences, text))], rng)


def _announced(words: FunctionWords, count: int, rng: Random) -> str:
    """Return what stands for several things that are listed behind: "these two loans"."""
    number = NUMBERS[count]
    nouns = words.thing_nouns()
    named = [f"these {number} {plural(nouns[0])}", f"{number} {plural(nouns[0])}"] if nouns else []
    both = ["both of these"] if count == 2 else ["all of these"]
    if words.method and named:
        return rng.choice(named)  # "these two" might be anything
    return rng.choice((*named, *both, f"these {number}"))


def _twice_otherwise(api: AskableApi, rng: Random, function: str) -> RequestDraft:
    """Return one phrase for two calls that differ in a listed value: "once as a, once as b"."""
    words = api.words[function]
    listed = [
        name
        for name, kind in words.kinds.items()
        if kind.kind == "enum"
        and len(kind.values) > 1
        and name != words.primary
        and not (words.method and _IN_ORDER.search(spaced_words(name)))
    ]
    if not listed:
        raise NoTaskDrawn("no listed values")
    primary = words.primary
    is_looked_at = "look" in act_families(api.acts[function])
    if primary and words.kinds[primary].kind in _CERTAIN and not is_looked_at:
        raise NoTaskDrawn("nobody does this twice with one thing")
    name = rng.choice(listed)
    first = draw_call(api, function, rng)
    values = rng.sample(list(words.kinds[name].values), 2)
    calls = [DrawnCall(words, {**first.arguments, name: each}) for each in values]
    rest = {key: value for key, value in first.arguments.items() if key != name}
    frame = draw_frame(api, DrawnCall(words, rest), rng)
    said = said_call(words, frame, rest, rng)
    one, two = (str(each).replace("_", " ") for each in values)
    label = words.label(name)
    ways = (
        f"once with {label} {one} and once with {label} {two}",
        f"first as {one}, then as {two}",
        f"once as {one} and once as {two}",
        f"one time {one}, one time {two}",
    )
    both = ways[0] if words.method else rng.choice(ways)
    said = replace(said, phrase=f"{said.phrase}, {both}")
    return RequestDraft(request_text([said], rng), calls, [frame])


def _one_after_the_other(api: AskableApi, rng: Random, function: str) -> RequestDraft:
    """Return two or three requests in one message."""
    count = 2 if rng.random() < 0.8 else 3
    functions = [function, *(rng.choice(api.names) for _ in range(count - 1))]
    if rng.random() < _SAME_AGAIN_SHARE:
        functions[1] = function
    return calls_in_turn_draft(api, rng, functions)


def calls_in_turn_draft(api: AskableApi, rng: Random, functions: Sequence[str]) -> RequestDraft:
    """Return a request for a call of each function, one after the other."""
    calls: list[DrawnCall] = []
    frames: list[RequestFrame] = []
    said: list[SaidCall] = []
    for name in functions:
        words = api.words[name]
        given = _same_thing(api, calls, name) if rng.random() < 0.35 else None
        call = draw_call(api, name, rng, given)
        if any(call.accepted() == other.accepted() for other in calls):
            raise NoTaskDrawn("the same call twice")
        frame = draw_frame(api, call, rng)
        calls.append(call)
        frames.append(frame)
        pronoun = given is not None and words.primary in frame.parameters and rng.random() < 0.6
        if pronoun and words.primary is not None:
            frame = with_back_reference(frame, words, rng)
        rest = {k: v for k, v in call.arguments.items() if not pronoun or k != words.primary}
        said.append(said_call(words, frame, rest, rng))
    return RequestDraft(request_text(said, rng), calls, frames)


_LISTABLE = frozenset("place free_text enum integer number date time identifier".split())
_JOINTS = ((" and ", ", and then ", " and also ", ", then "), (", then ", ", and then ", ", next "))


def listed_values_draft(
    api: AskableApi, rng: Random, function: str, num_calls: int
) -> RequestDraft:
    """Return one phrase for calls that differ in one value: "hotels in Porto, Lima and Oslo"."""
    words, first = api.words[function], draw_call(api, function, rng)
    frame = draw_frame(api, first, rng)
    beside = [name for name in first.arguments if name not in frame.parameters]
    names = [*beside, *(frame.parameters if len(frame.parameters) == 1 else ())]
    names = [name for name in names if words.kinds[name].kind in _LISTABLE]
    if not names:
        raise NoTaskDrawn("no values that can be listed")
    name = rng.choice(names)
    values = [first.arguments[name]]
    for _ in range(6 * num_calls):
        value = draw_value(api, words.kinds[name], rng)
        if len(values) < num_calls and value not in values:
            values.append(value)
    if len(values) < num_calls:
        raise NoTaskDrawn("too few values")
    calls = [DrawnCall(words, {**first.arguments, name: value}) for value in values]
    for call in calls:
        require_apart(words, call.arguments)
    text = enumerated([spoken_value(words.kinds[name], each, rng) for each in values])
    said = said_call(words, frame, {**first.arguments, name: WordedValue(text)}, rng)
    return RequestDraft(request_text([said], rng), calls, [frame])


def likewise_draft(api: AskableApi, rng: Random, function: str, num_calls: int) -> RequestDraft:
    """Return one whole request, and of the other calls only what differs from it."""
    words, first = api.words[function], draw_call(api, function, rng)
    frame = draw_frame(api, first, rng)
    changed = [name for name, kind in words.kinds.items() if kind.required]
    if frame.parameters or not {*changed} <= first.arguments.keys():
        raise NoTaskDrawn("differs within its phrase")
    calls = [first]
    said = said_call(words, frame, first.arguments, rng)
    text = said.phrase
    for number in range(1, num_calls):
        other = {name: draw_value(api, words.kinds[name], rng) for name in changed}
        calls.append(DrawnCall(words, {**first.arguments, **other}))
        require_apart(words, calls[-1].arguments)
        joints = _JOINTS[number < num_calls - 1]
        text += f"{rng.choice(joints)}{own_clauses(words, changed, other, rng).strip(' ,')}"
    if len({repr(call.arguments) for call in calls}) < num_calls:
        raise NoTaskDrawn("the same call twice")
    return RequestDraft(request_text([replace(said, phrase=text)], rng), calls, [frame])


def _same_thing(
    api: AskableApi, calls: Sequence[DrawnCall], function: str
) -> dict[str, Any] | None:
    """Return the thing of the call before for a function that takes the same sort."""
    words = api.words[function]
    if (
        not calls
        or words.clauses is not None
        or words.primary is None
        or words.kinds[words.primary].kind != "identifier"
    ):
        return None
    before = api.words[calls[-1].function]
    if before.primary != words.primary or before.doc.name == function:
        return None
    if words.method and before.thing_nouns()[:1] != words.thing_nouns()[:1]:
        return None  # each thing has an `id`
    return {words.primary: calls[-1].arguments[words.primary]}


def with_back_reference(frame: RequestFrame, words: FunctionWords, rng: Random) -> RequestFrame:
    """Return a frame that says "that loan" for its thing."""
    noun = words.thing_nouns()[0] if words.thing_nouns() else words.noun
    text = rng.choice((f"the same {noun}", f"that {noun}", f"this very {noun}"))
    return replace(frame, text=frame.text.replace(f"{{{words.primary}}}", text))


@cache
def functions_weighted_by_askable_values(api: AskableApi) -> tuple[str, ...]:
    """Return the functions as often as they have values that may go unsaid, thrice at most."""
    counts = {
        name: sum(each.required and can_be_missing(each) for each in api.words[name].kinds.values())
        for name in api.names
    }
    return tuple(name for name in api.names for _ in range(min(3, counts[name])))


def missing_value_draft(api: AskableApi, rng: Random, function: str) -> RequestDraft:
    """Return a request that leaves a demanded value open."""
    words = api.words[function]
    call = draw_call(api, function, rng)
    open_ones = [
        name
        for name, kind in words.kinds.items()
        if kind.required and name in call.arguments and can_be_missing(kind)
    ]
    if not open_ones:
        raise NoTaskDrawn("nothing can be left open")
    beside = [name for name in open_ones if name != words.primary]
    missing = rng.choice(beside if beside and rng.random() < _BESIDE_SHARE else open_ones)
    said = {name: value for name, value in call.arguments.items() if name != missing}
    if missing == words.primary:
        frame = draw_frame(api, call, rng)
        person = words.kinds[missing].kind == "person_name"
        noun = words.noun_of_sentence if person else words.label(missing)
        noun = words.thing_nouns()[0] if words.thing_nouns() else noun
        texts = (f"my {noun}", with_article(noun), f"one of the {plural(noun)}")
        text = rng.choice(texts[1:] if words.method else texts)
        text = rng.choice((text, "somebody")) if person else text
        frame = replace(frame, text=frame.text.replace(f"{{{missing}}}", text))
    else:
        frame = draw_frame(api, call, rng, without=missing)
    question = request_text([said_call(words, frame, said, rng)], rng)
    if is_mentioned(call.arguments[missing], question):
        raise NoTaskDrawn("says what it leaves open")
    return RequestDraft(question, [call], [frame], missing=missing)


def can_be_missing(kind: ArgumentKind) -> bool:
    """Return whether a value of a kind may go unsaid and be asked for."""
    if kind.kind == "enum":
        return len(kind.values) >= FEWEST_VALUES
    return kind.kind not in ("boolean", "array", "object", "one_of", "free_text")
