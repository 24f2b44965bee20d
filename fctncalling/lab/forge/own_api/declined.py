"""Requests to decline: near misses, foreign ones, and those whose function is left out."""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import NamedTuple

from fctncalling.lab.forge.forged_entry import NoTaskDrawn
from fctncalling.lab.forge.own_api.drawn_call import AskableApi, RequestDraft, draw_call, draw_frame
from fctncalling.lab.own_api.words.clauses import spoken_value_with_noun
from fctncalling.lab.own_api.words.frames import Act, RequestFrame, act_families, act_table
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.request_fit import stems
from fctncalling.lab.own_api.words.request_text import (
    REGISTERS,
    SaidCall,
    framed_text,
    request_text,
    said_call,
)
from fctncalling.lab.own_api.words.vocabulary import split_phrases, word_table

_NEVER = r"(?!)"
LEFT_OUT_SHARE = 0.3  # of requests to decline, where an API has more functions than a task offers
_TOO_WIDE = frozenset({"look", "change", "tell"})  # families that a near miss may be served by


class OutOfScopeRequests(NamedTuple):
    """Requests from outside, and what words of an API might serve them."""

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
    """Return whether an API's things are records, which nobody waters, paints or insures."""
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
    """Return a request about a thing of the API's own that no function of its serves."""
    words = _with_thing(api, rng)
    request = rng.choice(rng.choice(_rows_unserved(api, part)).requests)
    mood = _mood_of(request)
    text = _said_of_thing(api, words, request, mood, rng)
    return RequestDraft(text, [], source=part, about=words.doc.name)


def _mood_of(request: str) -> str:
    if re.match(r"(?:who|what|how|why|is|does|until)\b", request):
        return "ask"
    return "say" if re.match(r"(?:I|\{x\}|we) |whoever|the man", request) else "do"


def _other_act(api: AskableApi, rng: Random) -> RequestDraft:
    """Return a request for something else to be done with a thing of the API's own.

    What is done belongs to no function that takes such a thing, nor to a family of one that does.
    """
    words = _with_thing(api, rng)
    primary = words.primary
    assert primary is not None
    shape = _shape(words, primary)
    served = {family for name in _taking(api)[shape] for family in act_families(api.acts[name])}
    served |= {"look"} if _looks(api) else set()
    served |= {"pay"} if "claim" in served else set()  # money back is asked for by a claim
    served |= _TOO_WIDE
    others = [act for act in _foreign_acts(api) if _fits(act, words) and act.family not in served]
    if not others:
        raise NoTaskDrawn("every act might be served")
    act = rng.choice(others)
    mood = rng.choice([mood for mood in act.phrases if _usable(act, mood)])
    phrase = rng.choice(_usable(act, mood))
    text = _said_of_thing(api, words, phrase, mood, rng)
    return RequestDraft(text, [], source=f"not {act.name}", about=words.doc.name)


@cache
def _foreign_acts(api: AskableApi) -> list[Act]:
    """Return the acts that no function of an API is."""
    own = {act.name for each in api.acts.values() for act in each}
    return [act for act in act_table() if act.name not in own]


@cache
def _looks(api: AskableApi) -> bool:
    return any(words.verb in _LOOKS for words in api.words.values())


_LOOKS = frozenset("get show list find search tell look check".split())
_OF_THINGS = frozenset({"end", "make", "send", "give", "start", "pay", "approve", "extend"})


def _fits(act: Act, words: FunctionWords) -> bool:
    return act.family in _OF_THINGS and any(_usable(act, mood) for mood in act.phrases)


def _usable(act: Act, mood: str) -> list[str]:
    return [p for p in act.phrases[mood] if "{x}" in p and not re.search(r"\{(?!x\})", p)]


def _shape(words: FunctionWords, parameter: str) -> str:
    kind = words.kinds[parameter]
    return f"{kind.kind} {kind.pattern or kind.format or kind.examples[:1] or kind.topic}"


def _with_thing(api: AskableApi, rng: Random) -> FunctionWords:
    if not (things := _things(api)):
        raise NoTaskDrawn("no things")
    return rng.choice(things)


@cache
def _things(api: AskableApi) -> list[FunctionWords]:
    return [words for name in api.names if _is_thing(words := api.words[name])]


def _is_thing(words: FunctionWords) -> bool:
    primary = words.primary
    return primary is not None and words.kinds[primary].kind in ("identifier", "free_text")


def _said_of_thing(
    api: AskableApi, words: FunctionWords, phrase: str, mood: str, rng: Random
) -> str:
    primary = words.primary
    assert primary is not None
    arguments = draw_call(api, words.doc.name, rng).arguments
    if primary not in arguments:
        raise NoTaskDrawn("no value of the thing can be said")
    value = arguments[primary]
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
    call = draw_call(api, function, rng)
    frame: RequestFrame = draw_frame(api, call, rng)
    text = request_text([said_call(api.words[function], frame, call.arguments, rng)], rng)
    hidden = (function, *alike)
    return RequestDraft(text, [], [frame], left_out=hidden, source="left out", about=function)


def may_serve(other: FunctionWords, own: FunctionWords, text: str) -> bool:
    """Return whether a function does what a request for a left-out one asks for, or nearly.

    It does as much with the same thing: a list of all has the one, a metric may be a custom one.
    """
    one, two = other.operation, own.operation
    if one is None or two is None:
        return False
    sorts = ["look" if each.sort == "search" else each.sort for each in (one, two)]
    nouns = {each for noun in one.nouns.values() for each in stems(noun)}
    things = {*stems(one.thing)} <= {*stems(two.thing), *stems(" ".join(two.nouns.values()))}
    same_verb = sorts[0] != "other" or one.verb == two.verb
    return sorts[0] == sorts[1] and same_verb and things and nouns <= {*stems(text)}


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
