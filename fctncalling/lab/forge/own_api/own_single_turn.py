"""Drafts of one turn: one call, several, a value that is not said, requests to be declined."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any, NamedTuple

from fctncalling.checkers.clarify import is_mentioned
from fctncalling.lab.forge.forged_entry import NoTaskDrawn
from fctncalling.lab.forge.own_api.drawn_call import (
    AskableApi,
    DrawnCall,
    RequestDraft,
    draw_call,
    draw_frame,
)
from fctncalling.lab.own_api.english import enumerated, plural, spaced_words, with_article
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.clauses import spoken_value_with_noun
from fctncalling.lab.own_api.words.frames import Act, RequestFrame, act_families, act_table
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.labelled_values import said_values
from fctncalling.lab.own_api.words.request_text import (
    REGISTERS,
    SaidCall,
    framed_text,
    own_clauses,
    plural_slot,
    request_text,
    said_call,
    several_things,
)
from fctncalling.lab.own_api.words.spoken_values import WordedValue, join_with_and, spoken_value
from fctncalling.lab.own_api.words.vocabulary import (
    register_table_phrases,
    split_phrases,
    word_table,
)

_NEVER = r"(?!)"
LEFT_OUT_SHARE = 0.3  # of requests to decline, where an API has more functions than a task offers


class OutOfScopeRequests(NamedTuple):
    """Requests from outside, and the words of an API that might serve them."""

    unless: re.Pattern[str]
    requests: tuple[str, ...]


@cache
def _outside(part: str) -> tuple[OutOfScopeRequests, ...]:
    return tuple(
        OutOfScopeRequests(
            re.compile(rf"\b(?:{row.get('unless', _NEVER)})"), split_phrases(row["requests"])
        )
        for row in word_table("outside")[part]
    )


def out_of_scope_draft(api: AskableApi, rng: Random) -> RequestDraft:
    """Return a request that no function on offer serves."""
    is_large = api.whole is not None or not api.offers.choice.takes_all
    if is_large and rng.random() < LEFT_OUT_SHARE:
        return _left_out(api, rng)
    roll = rng.random()
    if _of_records(api) and 0.5 <= roll < 0.96:
        return _about_own_thing(api, rng, "record")
    if roll < 0.26:
        return _from_outside(api, rng, "faq")
    if roll < 0.42:
        return _from_outside(api, rng, "foreign")
    if roll < 0.64:
        return _about_own_thing(api, rng, "record" if _of_records(api) else "near")
    if roll < 0.96:
        return _other_act(api, rng)
    return _left_out(api, rng)  # few of a small API: training reads another list anew


def _from_outside(api: AskableApi, rng: Random, part: str) -> RequestDraft:
    request = rng.choice(rng.choice(_rows_unserved(api, part)).requests)
    return RequestDraft(framed_text(request, rng.choice(REGISTERS), rng), [], source=part)


def _rows_unserved(api: AskableApi, part: str) -> list[OutOfScopeRequests]:
    """Return the rows that no words of the API speak of."""
    if not (rows := _unserved(api)[part]):
        raise NoTaskDrawn("everything might be served")
    return rows


@cache
def _of_records(api: AskableApi) -> bool:
    """Return whether an API's things are records, such as orders, and no physical objects."""
    return all(words.method for words in api.words.values())


@cache
def _unserved(api: AskableApi) -> dict[str, list[OutOfScopeRequests]]:
    everything = " ".join(words.all_words for words in api.words.values())
    everything = re.sub(r"\b(?:out of|in|in any) order\b", "", everything)
    return {
        part: [row for row in _outside(part) if not row.unless.search(everything)]
        for part in ("faq", "foreign", "near", "record")
    }


def _about_own_thing(api: AskableApi, rng: Random, part: str) -> RequestDraft:
    """Return a request about one of the API's things that no function of its serves."""
    words = rng.choice(_things(api))
    request = rng.choice(rng.choice(_rows_unserved(api, part)).requests)
    mood = _mood_of(request)
    text = _said_of_thing(api, words, request, mood, rng)
    return RequestDraft(text, [], source=part, about=words.doc.name)


def _mood_of(request: str) -> str:
    if re.match(r"(?:who|what|how|why|is|does|until)\b", request):
        return "ask"
    return "say" if re.match(r"(?:I|\{x\}|we) |whoever|the man", request) else "do"


def _other_act(api: AskableApi, rng: Random) -> RequestDraft:
    """Return a request for another act on one of the API's things.

    What is done belongs to no function that takes such a thing, nor to a family of one that does.
    """
    words = rng.choice(_things(api))
    assert words.primary is not None
    alike = _taking(api)[_shape(words, words.primary)]
    served = {family for name in alike for family in act_families(api.acts[name])}
    served |= {"pay"} if "claim" in served else set()  # money back is asked for by a claim
    others = [act for act in _foreign_acts(api) if act.family not in served]
    if not others:
        raise NoTaskDrawn("every act might be served")
    act = rng.choice(others)
    mood = rng.choice([mood for mood in act.phrases if _usable(act, mood)])
    text = _said_of_thing(api, words, rng.choice(_usable(act, mood)), mood, rng)
    return RequestDraft(text, [], source=f"not {act.name}", about=words.doc.name)


@cache
def _foreign_acts(api: AskableApi) -> list[Act]:
    """Return the acts on one thing that no function of an API is."""
    own = {act.name for each in api.acts.values() for act in each}
    acts = [act for act in act_table() if act.family in _OF_THINGS and act.name not in own]
    return [act for act in acts if any(_usable(act, mood) for mood in act.phrases)]


_OF_THINGS = frozenset({"end", "make", "send", "give", "start", "pay", "approve", "extend"})


def _usable(act: Act, mood: str) -> list[str]:
    return [p for p in act.phrases[mood] if "{x}" in p and not re.search(r"\{(?!x\})", p)]


def _shape(words: FunctionWords, parameter: str) -> str:
    kind = words.kinds[parameter]
    return f"{kind.kind} {kind.pattern or kind.format or kind.examples[:1] or kind.topic}"


@cache
def _things(api: AskableApi) -> list[FunctionWords]:
    asked = [api.words[name] for name in api.names]
    sorts = ("identifier", "free_text")
    found = [each for each in asked if each.primary and each.kinds[each.primary].kind in sorts]
    if not found:
        raise NoTaskDrawn("no things")
    return found


def _said_of_thing(
    api: AskableApi, words: FunctionWords, phrase: str, mood: str, rng: Random
) -> str:
    primary = words.primary
    assert primary is not None
    value = draw_call(api, words.doc.name, rng).arguments[primary]
    thing = spoken_value_with_noun(words, primary, value, rng)
    return request_text([SaidCall(words.filled(phrase.replace("{x}", thing)), mood, ())], rng)


def _left_out(api: AskableApi, rng: Random) -> RequestDraft:
    """Draw a request that no offered function serves."""
    offered = api.words if api.whole is not None else ()
    api = api.whole or api
    function = rng.choice(api.names)
    alike = _alike(api, function)
    served = alike if api.offers.choice.takes_all else {function, *alike} & {*offered}
    if served:
        raise NoTaskDrawn("another function might do")
    draft = single_call_draft(api, rng, function)
    hidden = (function, *alike)
    return replace(draft, calls=[], left_out=hidden, source="left out", about=function)


@cache
def _alike(api: AskableApi, function: str) -> tuple[str, ...]:
    """Return the functions with the same family of verbs and the same kind of thing."""
    words, families = api.words[function], act_families(api.acts[function])
    found = {name for parameter in words.kinds for name in _taking(api)[_shape(words, parameter)]}
    found |= {name for name in api.words if api.words[name].noun == words.noun}
    return tuple(
        name
        for name in sorted(found - {function})
        if families & act_families(api.acts[name]) or not (api.acts[name] and api.acts[function])
    )


@cache
def _taking(api: AskableApi) -> dict[str, list[str]]:
    """Return the functions that take a value of each shape."""
    found: dict[str, list[str]] = {}
    for name, words in api.words.items():
        for shape in {_shape(words, parameter) for parameter in words.kinds}:
            found.setdefault(shape, []).append(name)
    return found


_SAID_BEHIND = frozenset({"boolean", "array", "object", "one_of"})
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
    roll, has_thing = rng.random(), api.words[function].primary is not None
    if roll < 0.3 and has_thing:
        return listed_values_draft(api, rng, function, rng.choice((2, 2, 2, 2, 3)))
    if roll < 0.62:
        return likewise_draft(api, rng, function, 2)
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
    """Return one phrase for calls that differ in one value: "hotels in Porto, Lima and Oslo".

    Of a phrase without clauses of its own it is the thing: "cancel L-311 and L-312".
    """
    words, first = api.words[function], draw_call(api, function, rng)
    frame = draw_frame(api, first, rng)
    if words.clauses is None:
        names = [name for name in frame.parameters if name == words.primary]
    else:
        beside = [name for name in first.arguments if name not in frame.parameters]
        names = [*beside, *(frame.parameters if len(frame.parameters) == 1 else ())]
        names = [name for name in names if words.kinds[name].kind in _LISTABLE]
        clauses = words.clauses  # of which each may be of one value alone
        names = [n for n in names if any("{}" in text for text in clauses.get(n, ("{}",)))]
    if not names:
        raise NoTaskDrawn("no values that can be listed")
    name = rng.choice(names)
    calls = _calls_that_differ(api, first, [name], num_calls, rng)
    values = [call.arguments[name] for call in calls]
    if words.clauses is None:
        text, plural_text = several_things(words, name, values, rng), plural_slot(frame.text, name)
        if plural_text is None:
            raise NoTaskDrawn("speaks of one thing")
        frame = replace(frame, text=plural_text)
    else:
        text = enumerated([spoken_value(words.kinds[name], each, rng) for each in values])
    said = said_call(words, frame, {**first.arguments, name: WordedValue(text)}, rng)
    return RequestDraft(request_text([said], rng), calls, [frame])


def likewise_draft(api: AskableApi, rng: Random, function: str, num_calls: int) -> RequestDraft:
    """Return one whole request, and only the differences of the other calls."""
    words, first = api.words[function], draw_call(api, function, rng)
    frame = draw_frame(api, first, rng)
    if words.clauses is None:
        changed = rng.choice(_changeable(api, first))
    else:
        changed = [name for name, kind in words.kinds.items() if kind.required]
        if frame.parameters or not {*changed} <= first.arguments.keys():
            raise NoTaskDrawn("differs within its phrase")
    calls = _calls_that_differ(api, first, changed, num_calls, rng)
    said = said_call(words, frame, first.arguments, rng)
    others = [_what_differs(words, frame, changed, call, rng) for call in calls[1:]]
    if words.clauses is not None or changed != [words.primary]:
        if words.clauses is None and (said.sentences or "?" in said.phrase):
            raise NoTaskDrawn("says more behind")
        joints = [rng.choice(_JOINTS[index + 1 < len(others)]) for index in range(len(others))]
        text = "".join(f"{joint}{each}" for joint, each in zip(joints, others, strict=True))
    elif words.method and said.sentences:
        raise NoTaskDrawn("says more behind")
    else:
        form = rng.choice(register_table_phrases("frame")["likewise"])
        text = form.replace("{o}", join_with_and(others, rng))
    if text.startswith((",", " ")):
        said = replace(said, phrase=f"{said.phrase}{text}")
    else:
        said = replace(said, sentences=(*said.sentences, text))
    return RequestDraft(request_text([said], rng), calls, [frame])


def _changeable(api: AskableApi, first: DrawnCall) -> list[list[str]]:
    """Return groups of parameters in which two calls of one message may differ.

    The thing; a listed value of what is no certain thing or only looked at; everything.
    """
    words, primary = first.words, first.words.primary
    is_certain = primary is not None and words.kinds[primary].kind in _CERTAIN
    groups = [[name] for name in first.arguments if name == primary]
    if not is_certain or "look" in act_families(api.acts[first.function]):
        groups += [
            [name]
            for name in first.arguments
            if words.kinds[name].kind == "enum"
            and name != primary
            and not (words.method and _IN_ORDER.search(spaced_words(name)))
        ]
    is_plain = not any(words.kinds[name].kind in _SAID_BEHIND for name in first.arguments)
    if is_plain and primary in first.arguments and len(first.arguments) > 1 and not words.method:
        groups.append(sorted(first.arguments, key=lambda name: name != primary))
    if not groups:
        raise NoTaskDrawn("differs in nothing that can be said alone")
    return groups


def _calls_that_differ(
    api: AskableApi, first: DrawnCall, names: Sequence[str], count: int, rng: Random
) -> list[DrawnCall]:
    """Return the call and others that differ from it in each of some parameters, and from all."""
    words, calls = first.words, [first]
    sorts = {words.kinds[name].kind for name in first.arguments.keys() - {*names}}
    if words.clauses is None and sorts & _OF_ONE:
        raise NoTaskDrawn("says what belongs to one thing alone")
    differs = all if words.clauses is None else any
    for _ in range(6 * count):
        drawn = draw_call(api, first.function, rng).arguments
        other = {**first.arguments, **{name: drawn.get(name) for name in names}}
        is_new = all(
            differs(repr(call.arguments[name]) != repr(other[name]) for name in names)
            for call in calls
        )
        if len(calls) < count and is_new and {*names} <= drawn.keys():
            calls.append(DrawnCall(words, other))
    if len(calls) < count:
        raise NoTaskDrawn("too few values")
    return calls


def _what_differs(
    words: FunctionWords, frame: RequestFrame, names: Sequence[str], call: DrawnCall, rng: Random
) -> str:
    """Return the difference between a call and the one before, as people add it: "L-4 to Ben"."""
    if words.clauses is not None:
        return own_clauses(words, names, call.arguments, rng).strip(" ,")
    parts = []
    for name in names:
        text = spoken_value(words.kinds[name], call.arguments[name], rng)
        at = re.search(rf"\b(to|for|with|from|in|on|at|by|is) \{{{name}\}}", frame.text)
        if name != words.primary and at is None:
            said = said_values(words, {name: call.arguments[name]}, frame.mood, rng)
            if any(each.is_sentence for each in said):
                raise NoTaskDrawn("its place is not told")
            text = " ".join(each.text for each in said)
        parts.append(f"{at[1]} {text}" if at is not None and name != words.primary else text)
    return " ".join(parts)


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
    beside = [name for name in open_ones if name != words.primary]
    missing = rng.choice(beside if beside and rng.random() < _BESIDE_SHARE else open_ones)
    said = {name: value for name, value in call.arguments.items() if name != missing}
    if missing == words.primary:
        frame = draw_frame(api, call, rng)
        person = words.kinds[missing].kind == "person_name"
        if f"called {{{missing}}}" in frame.text or "somebody" in frame.text:
            raise NoTaskDrawn("speaks of somebody")
        noun = words.noun_of_sentence if person else words.label(missing)
        noun = words.thing_nouns()[0] if words.thing_nouns() else noun
        texts = (f"my {noun}", with_article(noun), f"one of the {plural(noun)}")
        text = rng.choice(texts[1:] if words.method else texts)
        text = rng.choice((text, "somebody")) if person else text
        nouns = (noun, *words.thing_nouns()) if frame.source == "file" else ()
        own = {word for each in nouns for word in each.split(" ")}
        frame = replace(frame, text=_in_slot(frame.text, missing, text, own))
    else:
        frame = draw_frame(api, call, rng, without=missing)
    question = request_text([said_call(words, frame, said, rng)], rng)
    if is_mentioned(call.arguments[missing], question):
        raise NoTaskDrawn("says what it leaves open")
    return RequestDraft(question, [call], [frame], missing=missing)


def _in_slot(phrase: str, slot: str, text: str, nouns: Collection[str]) -> str:
    """Return a phrase with a noun in a slot, in place of the user's noun in front of it."""
    if not nouns:
        return phrase.replace(f"{{{slot}}}", text)
    named = "|".join(map(re.escape, sorted(nouns)))
    article = r"\b(?:the|my|our|this|an?) "
    told = rf"(?:{article})?(?:\b(?:{named}) )+|{article}(?:[\w-]+ )?"
    return re.sub(rf"(?:{told})?\{{{slot}\}}", lambda _: text, phrase)


def can_be_missing(kind: ArgumentKind) -> bool:
    """Return whether a value of a kind may go unsaid and be asked for."""
    if kind.kind == "enum":
        return len(kind.values) >= FEWEST_VALUES
    return kind.kind not in ("boolean", "array", "object", "one_of", "free_text")
