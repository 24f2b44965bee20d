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
from fctncalling.lab.own_api.words.request_text import SaidCall, request_text, said_call
from fctncalling.lab.own_api.words.vocabulary import split_phrases, word_table

_NEVER = r"(?!)"
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
    roll = rng.random()
    if roll < 0.26:
        return _from_outside(api, rng, "faq")
    if roll < 0.42:
        return _from_outside(api, rng, "foreign")
    if roll < 0.64:
        return _about_own_thing(api, rng)
    if roll < 0.96:
        return _other_act(api, rng)
    return _left_out(api, rng)  # few: a list of functions of its own is read anew in training


def _from_outside(api: AskableApi, rng: Random, part: str) -> RequestDraft:
    request = rng.choice(rng.choice(_rows_unserved(api, part)).requests)
    return RequestDraft(_dressed(request, rng), [], source=part)


def _rows_unserved(api: AskableApi, part: str) -> list[OutOfScopeRequests]:
    """Return the rows that no words of the API speak of."""
    everything = " ".join(words.all_words for words in api.words.values())
    everything = re.sub(r"\b(?:out of|in|in any) order\b", "", everything)
    rows = [row for row in _outside(part) if not row.unless.search(everything)]
    if not rows:
        raise NoTaskDrawn("everything might be served")
    return rows


_OPENINGS = (
    *("", "", "", "Hello, ", "Hi! ", "Excuse me: "),
    *("By the way, ", "One more thing: ", "So, "),
)
_ENDINGS = (
    *("", "", "", "", " Thanks!", " Please.", " Thank you."),
    *(" It is urgent.", " Any idea?"),
)


def _dressed(request: str, rng: Random) -> str:
    """Return a whole request with or without a greeting, so that no two need be the same."""
    opening = rng.choice(_OPENINGS)
    text = f"{opening}{request}"
    if opening.endswith((", ", ": ")) and re.match(r"(?!I\b|[A-Z]{2})[A-Z][a-z]+ ", request):
        text = f"{opening}{request[:1].lower()}{request[1:]}"
    if text.endswith((".", "?", "!")):
        text += rng.choice(_ENDINGS)
    if rng.random() < 0.15:
        text = text[:1].lower() + text[1:].rstrip(".")
    return text


def _about_own_thing(api: AskableApi, rng: Random) -> RequestDraft:
    """Return a request about a thing of the API's own that no function of its serves."""
    words = _with_thing(api, rng)
    request = rng.choice(rng.choice(_rows_unserved(api, "near")).requests)
    mood = _mood_of(request)
    return RequestDraft(_said_of_thing(api, words, request, mood, rng), [], source="near")


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
    taking = [
        name
        for name, each in api.words.items()
        if any(_shape(each, parameter) == shape for parameter in each.kinds)
    ]
    served = {family for name in taking for family in act_families(api.acts[name])}
    served |= {"look"} if any(words.verb in _LOOKS for words in api.words.values()) else set()
    served |= {"pay"} if "claim" in served else set()  # money back is asked for by a claim
    own = {act.name for each in api.acts.values() for act in each}
    others = [
        act for act in act_table() if _fits(act, words) and act.family not in served | _TOO_WIDE
    ]
    others = [act for act in others if act.name not in own]
    if not others:
        raise NoTaskDrawn("every act might be served")
    act = rng.choice(others)
    mood = rng.choice([mood for mood in act.phrases if _usable(act, mood)])
    phrase = rng.choice(_usable(act, mood))
    return RequestDraft(_said_of_thing(api, words, phrase, mood, rng), [], source=f"not {act.name}")


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
    things = [w for name in api.names if (w := api.words[name]).primary and _is_thing(w)]
    if not things:
        raise NoTaskDrawn("no things")
    return rng.choice(things)


def _is_thing(words: FunctionWords) -> bool:
    primary = words.primary
    return primary is not None and words.kinds[primary].kind in ("identifier", "free_text")


def _said_of_thing(
    api: AskableApi, words: FunctionWords, phrase: str, mood: str, rng: Random
) -> str:
    primary = words.primary
    assert primary is not None
    value = draw_call(api, words.doc.name, rng).arguments[primary]
    thing = spoken_value_with_noun(words, primary, value, rng)
    return request_text([SaidCall(words.filled(phrase.replace("{x}", thing)), mood, ())], rng)


def _left_out(api: AskableApi, rng: Random) -> RequestDraft:
    """Return a request whose function is not offered; none where another might do."""
    function = rng.choice(api.names)
    if any(_alike(api, function, other) for other in api.words if other != function):
        raise NoTaskDrawn("another function might do")
    call = draw_call(api, function, rng)
    frame: RequestFrame = draw_frame(api, call, rng)
    text = request_text([said_call(api.words[function], frame, call.arguments, rng)], rng)
    return RequestDraft(text, [], [frame], left_out=function, source="left out")


def _alike(api: AskableApi, one: str, other: str) -> bool:
    """Return whether two functions do what belongs to one family with things of one sort."""
    families = act_families(api.acts[one]) & act_families(api.acts[other])
    if not families and api.acts[one] and api.acts[other]:
        return False
    shapes = [{_shape(w, p) for p in w.kinds} for w in (api.words[one], api.words[other])]
    return bool(shapes[0] & shapes[1]) or api.words[one].noun == api.words[other].noun
