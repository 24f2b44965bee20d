"""AskableApi, and calls drawn of it: their values fit together, one part of them is held out."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from random import Random
from typing import Any

from fctncalling.lab.forge.forged_entry import NoTaskDrawn
from fctncalling.lab.forge.own_api.offers import FunctionOffers
from fctncalling.lab.forge.plan import Plan
from fctncalling.lab.own_api.english import spaced_words
from fctncalling.lab.own_api.function_choice import MOST_OFFERED
from fctncalling.lab.own_api.kinds import MISSING, ArgumentKind
from fctncalling.lab.own_api.kinds.argument_kind import MOST_NAMED, is_same_value
from fctncalling.lab.own_api.kinds.evidence import UNDRAWN
from fctncalling.lab.own_api.words.clauses import (
    CHANGES,
    ordered_parameter_pairs,
    span_parameter_pairs,
)
from fctncalling.lab.own_api.words.frames import (
    Act,
    RequestFrame,
    acts_of_function,
    clauses_of_frames,
    frames_of_function,
    split_held_out_frames,
    with_own_frames,
)
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.labelled_values import can_be_said
from fctncalling.lab.own_api.words.request_fit import RequestFit
from fctncalling.specification.api import OwnApi

OTHER_MIGHT_DO = "another function might do"
FEW_FUNCTIONS = 30
FEW_OF_ACTS = 8  # phrases: of fewer, none is said as often as its share
FEW_OWN_PHRASES = 4  # of a function, for one to be held out


@dataclass(frozen=True, eq=False)  # what is found of it once is kept by its identity
class AskableApi:
    """API with argument kinds and request phrases, and why some functions are not asked for."""

    api: OwnApi
    words: Mapping[str, FunctionWords]
    frames: Mapping[str, Sequence[RequestFrame]]  # of the part that is made
    acts: Mapping[str, Sequence[Act]]
    offers: FunctionOffers
    unasked: Mapping[str, str]  # function -> why no request can be made for it
    left_out: Mapping[tuple[str, str], str]  # parameter -> why it is in no request
    fit: RequestFit
    held_out: bool
    whole: AskableApi | None = None  # of a part: the API that it is a part of

    def part(self, offers: FunctionOffers) -> AskableApi:
        """Return the part of a large API that one offer holds, of which tasks offer everything."""
        names = [doc["name"] for doc in offers.docs]
        return replace(
            self,
            words={name: self.words[name] for name in names},
            frames={name: self.frames[name] for name in names},
            acts={name: self.acts[name] for name in names},
            offers=offers,
            whole=self,
        )

    @property
    def is_small(self) -> bool:
        """Whether people speak of it as at a desk, in words that need no noun."""
        return len(self.api.functions) <= FEW_FUNCTIONS

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The functions that can be asked for."""
        return tuple(name for name in self.words if name not in self.unasked)


def askable_api(
    api: OwnApi,
    kinds: Mapping[tuple[str, str], ArgumentKind],
    own_phrases: Mapping[str, Sequence[RequestFrame]],
    *,
    held_out: bool = False,
    offered: int = MOST_OFFERED,
) -> AskableApi:
    """Return an API with its wording; the user's phrases take precedence.

    `offered`: how many functions a task offers at most.
    """
    offers = FunctionOffers(api, offered)
    own: dict[str, dict[str, ArgumentKind]] = {doc.name: {} for doc in api.functions}
    for (function, name), kind in kinds.items():
        own[function][name] = kind
    words = {
        doc.name: FunctionWords(
            doc,
            own[doc.name],
            api.origins.get(doc.name, {}),
            clauses_of_frames(own_phrases.get(doc.name, ())) or None,
        )
        for doc in api.functions
    }
    every = frames_of_api(words, own_phrases)
    return AskableApi(
        api,
        words,
        {name: frames_of_part(frames, held_out=held_out) for name, frames in every.items()},
        {name: acts_of_function(each) for name, each in words.items()},
        offers,
        _unasked(words) | offers.too_long(),
        {key: _why(kind) for key, kind in kinds.items() if not kind.can_be_asked},
        RequestFit((doc.name, doc.description, words[doc.name].path) for doc in api.functions),
        held_out,
    )


def frames_of_api(
    words: Mapping[str, FunctionWords], own_phrases: Mapping[str, Sequence[RequestFrame]]
) -> dict[str, list[RequestFrame]]:
    """Return all phrases of each function, to learn from and held out, the user's first."""
    own = {name: [f for f in own_phrases.get(name, ()) if not f.says] for name in words}
    return {name: with_own_frames(frames_of_function(words[name]), own[name]) for name in words}


def frames_of_part(frames: Sequence[RequestFrame], *, held_out: bool) -> list[RequestFrame]:
    """Return the phrases to learn from, or those held out: an eighth of the user's too.

    Where these are few, all are learned from; beside ours they are in no held-out task.
    """
    own = [frame for frame in frames if frame.source == "file"]
    ours = [frame for frame in frames if frame.source != "file"]
    if len(own) < FEW_OWN_PHRASES:
        its = [] if held_out and ours else own
    else:
        its = split_held_out_frames(own)[held_out]
    return [*its, *(split_held_out_frames(ours)[held_out] if ours else ())]


def _unasked(words: Mapping[str, FunctionWords]) -> dict[str, str]:
    """Return the functions that no request can be made for, with the parameter that prevents it."""
    found: dict[str, str] = {}
    for name, each in words.items():
        for parameter, kind in each.kinds.items():
            if kind.required and not kind.can_be_asked:
                found[name] = f"{parameter} is demanded, but {_why(kind)}"
        is_change = each.method and each.operation and each.operation.sort == "change"
        if is_change and all(each.is_placed(n) for n, k in each.kinds.items() if k.can_be_asked):
            found.setdefault(name, "no document says what it changes")
    return found


def _why(kind: ArgumentKind, cure: str = "--kinds FILE can") -> str:
    """Return why no request can name a value of a kind; `cure`: the flag for values."""
    nested = "a schema's x-kind can"
    if kind.kind == "client":
        return f"a client sets it, no user says it: {cure} change that"
    if kind.kind == "unknown":
        told = "the document does not say which values it takes"
        return f"{UNDRAWN if kind.evidence == UNDRAWN else told}: {cure} say them"
    if kind.most_named > MOST_NAMED:
        return f"one value of it holds up to {kind.most_named} others: no request names so many"
    if kind.item is not None:
        return f"its items: {_why(kind.item, nested)}"
    for name, key in kind.properties.items():
        if key.required and not key.can_be_asked:
            return f"its key {name} is demanded, but {_why(key, nested)}"
    if kind.alternatives:
        return f"its forms, such as the first: {_why(kind.alternatives[0], nested)}"
    first = next(iter(kind.properties.items()), None)
    return f"its keys, such as {first[0]}: {_why(first[1], nested)}" if first else "it has no keys"


@dataclass(frozen=True)
class RequestDraft:
    """A request, the calls that it asks for (none: to be declined) and its origin."""

    question: str
    calls: Sequence[DrawnCall]
    frames: Sequence[RequestFrame] = ()
    missing: str = ""  # the parameter that is not said
    left_out: Sequence[str] = ()  # the function that is not offered, and those like it
    source: str = ""
    about: str = ""  # the function that a request to be declined is near to
    turns: Sequence[str] = ()  # what the user says, turn by turn, where there are several
    plan: Plan | None = None  # of several turns


_OPTIONAL_SHARE = 0.5  # what is said of options teaches most: models leave them out
_FLAG_SHARE = 0.35
PAGING_SHARE = 0.08  # of requests for a list, that say which part of it
_MOST_OPTIONAL = 3
_BARE_SHARE = 0.1  # of calls without demanded values that have no value at all
_OWN_PHRASE_SHARE = 0.25  # of a function's tasks that each phrase of the user's gets
_OWN_PHRASES_SHARE = 0.75  # and all of them together
_ACT_SHARE, _DOC_SHARE = 0.4, 0.12
_ACT_SHARE_OF_MANY = 0.05
_OPEN_KINDS = frozenset(
    "identifier person_name free_text email phone url date datetime standard".split()
)
_TRIES = 60


@dataclass(frozen=True)
class DrawnCall:
    """Call of a function."""

    words: FunctionWords
    arguments: Mapping[str, Any]

    @property
    def function(self) -> str:
        """The function's name."""
        return self.words.doc.name

    @cached_property
    def truth(self) -> dict[str, Any]:
        """Accepted values of each parameter: an unsaid one is left out or has its default."""
        truth: dict[str, Any] = {}
        for name, kind in self.words.kinds.items():
            if name in self.arguments:
                truth[name] = kind.accepted(self.arguments[name])
            elif len(unsaid := kind.accepted_unsaid()) > 1:
                truth[name] = unsaid
        return truth

    def accepted(self) -> dict[str, dict[str, Any]]:
        """Return the call as a ground truth lists it."""
        return {self.function: self.truth}


def draw_call(
    api: AskableApi,
    function: str,
    rng: Random,
    given: Mapping[str, Any] | None = None,
    known: Mapping[str, Any] | None = None,
) -> DrawnCall:
    """Return a call with drawn values; NoTaskDrawn if none fits.

    given: values that it has; known: values of parameters that it may or may not mention.
    """
    words, given, known = api.words[function], given or {}, known or {}
    names = _mentioned(words, rng)
    arguments: dict[str, Any] = {}
    for name in words.kinds:
        if name in given:
            arguments[name] = given[name]
        elif name in names:
            arguments[name] = (
                known[name] if name in known else draw_value(api, words.kinds[name], rng)
            )
    if words.method:
        _keep_to_sayable(words, arguments)
    for first, last in ordered_parameter_pairs(words):  # no end before its start
        if first in arguments and last in arguments and arguments[first] > arguments[last]:
            arguments[first], arguments[last] = arguments[last], arguments[first]
    _match_mail(words, arguments)
    require_apart(words, arguments)
    return DrawnCall(words, arguments)


def _mentioned(words: FunctionWords, rng: Random) -> list[str]:
    """Return the parameters that a request mentions."""
    needed = [name for name, kind in words.kinds.items() if kind.required]
    optional = [n for n, kind in words.kinds.items() if not kind.required and kind.can_be_asked]
    optional = [n for n in optional if len(words.kinds[n].values) != 1 or not words.method]
    chosen = [name for name in optional if rng.random() < _share(words, name)]
    chosen = rng.sample(chosen, min(len(chosen), _MOST_OPTIONAL))
    changes = words.verb in CHANGES and len(needed) < 2
    bare = not needed and rng.random() >= _BARE_SHARE
    if words.method and words.operation:
        sort, path = words.operation.sort, words.path
        open_ones = [name for name in optional if f"{{{name}}}" not in path]
        changes = sort == "change" or words.verb in CHANGES
        changes = changes and all(f"{{{name}}}" in path for name in needed)
        bare = bare and sort != "search"
        chosen += [n for n in open_ones if n == "id" and n not in chosen and sort != "look"]
        queries = [n for n in open_ones if words.kinds[n].topic == "query"]
        chosen += queries[:1] if sort == "search" and not {*queries} & {*chosen} else []
    told = [name for name in optional if not is_paging(words, name)]
    if (changes or bare) and told and not chosen:
        chosen = [rng.choice(told)]
    return [name for name in words.kinds if name in needed or name in chosen]


def _share(words: FunctionWords, name: str) -> float:
    if is_paging(words, name):
        return PAGING_SHARE / sum(is_paging(words, other) for other in words.kinds)
    return _FLAG_SHARE if words.kinds[name].kind == "boolean" else _OPTIONAL_SHARE


_PAGES = re.compile(
    r"page|(?:page|start) (?:number|size|no|index|limit)|(?:results |items )?per page|offset|skip|"
    r"limit|max (?:results|items)|top|rows|take|count|start"
)


@cache
def is_paging(words: FunctionWords, name: str) -> bool:
    """Return whether an option says which part of a list an HTTP answer has: few people say it."""
    kind = words.kinds[name]
    is_number = not kind.required and kind.kind in ("integer", "number")
    return bool(words.method and is_number and _PAGES.fullmatch(spaced_words(name)))


def optional_shares(words: FunctionWords) -> dict[str, float]:
    """Return of each optional parameter the share of calls that are to say it, about."""
    kinds = words.kinds.items()
    optional = {n: _share(words, n) for n, k in kinds if not k.required and k.can_be_asked}
    most = min(1.0, _MOST_OPTIONAL / max(1.0, sum(optional.values())))
    return {name: most * share for name, share in optional.items()}


def draw_value(api: AskableApi, kind: ArgumentKind, rng: Random) -> Any:
    """Return a value of the part that is made: an eighth of all open values is held out."""
    for _ in range(_TRIES):
        try:
            value = kind.draw(rng)
        except ValueError as fault:
            raise NoTaskDrawn(str(fault)) from None
        is_open = kind.kind in _OPEN_KINDS and kind.topic != "example"
        if not is_open or is_held_out(value) is api.held_out:
            return value
    raise NoTaskDrawn(f"no {kind.kind} of this part")


def is_held_out(value: Any) -> bool:
    """Return whether an open value is kept for held-out tasks."""
    return hashlib.sha256(str(value).encode()).digest()[0] % 8 == 0


_EXCLUDES = re.compile(
    r"(?:can ?not|can't|must not|may not|should not|not be|do not) (?:be )?(?:used?|combined?|"
    r"set|specify|specified|provided?|sent|passed|included?)?[^.]{0,20}\b(?:with|both|if|when)\b|"
    r"mutually exclusive|only one of|not both|instead of|either\b.*\bor\b|alternative to|overrid",
    re.IGNORECASE,
)
"""What a description says of parameters that exclude each other."""


def _keep_to_sayable(words: FunctionWords, arguments: dict[str, Any]) -> None:
    """Leave out options that no person says or that others exclude; refuse an empty change."""
    for name in [*arguments]:
        if not can_be_said(words, name, arguments[name]):
            if words.kinds[name].required:
                raise NoTaskDrawn("its nested values have no words")
            del arguments[name]
    own = words.operation
    optional = {name for name, kind in words.kinds.items() if not kind.required}
    for name, value in [*arguments.items()]:
        kind = words.kinds[name]
        # Each value may name a form, one of several; what is demanded is none ("sort by id").
        forms = {*map(str, kind.values)} & optional - {name}
        for other in forms - {str(value)}:
            arguments.pop(other, None)
        if str(value) in forms and str(value) not in arguments:
            raise NoTaskDrawn("names a form that is not said")
        if value is False and not kind.required and kind.default is MISSING:
            arguments[name] = True  # nobody asks for what is so in any case
    for name in [*arguments]:
        if not words.kinds[name].required and _is_excluded(words, name, arguments):
            del arguments[name]
    places = words.origin.get("parameters", {})
    if any(each.get("in") == "whole body" and n not in arguments for n, each in places.items()):
        raise NoTaskDrawn("its nested values have no words")
    changes = own and (own.sort == "change" or words.verb in CHANGES)
    if changes and all(map(words.is_placed, arguments)):
        raise NoTaskDrawn("says no change")
    if own and own.sort == "search" and not arguments and words.kinds:
        raise NoTaskDrawn("says nothing to look for")


def _is_excluded(words: FunctionWords, name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether another value leaves no room for an option, by the document of either."""
    pairs = [(name, each) for each in arguments if each != name]
    return any(
        re.search(rf"\b{re.escape(two)}\b", words.kinds[one].description)
        and _EXCLUDES.search(words.kinds[one].description)
        for pair in pairs
        for one, two in (pair, pair[::-1])
    )


def _match_mail(words: FunctionWords, arguments: dict[str, Any]) -> None:
    """Give an e-mail address the name of the person it belongs to."""
    named = {words.kinds[name].kind: name for name in arguments}
    person, mail = named.get("person_name"), named.get("email")
    if person and mail and str(arguments[mail]).endswith(".example"):
        plain = unicodedata.normalize("NFKD", str(arguments[person]).lower())
        plain = re.sub(r"[^a-z .]", "", plain).replace(" ", ".")
        arguments[mail] = f"{plain}@{str(arguments[mail]).partition('@')[2]}"


def require_apart(words: FunctionWords, arguments: Mapping[str, Any]) -> None:
    """Refuse two equal values of one kind: from a place to itself, a person with himself."""
    pairs = [pair for pair in span_parameter_pairs(words) if {*pair} <= arguments.keys()]
    if any(is_same_value(arguments[first], arguments[last]) for first, last in pairs):
        raise NoTaskDrawn("two equal values")
    seen: list[tuple[str, Any]] = []
    for name, value in arguments.items():
        kind = words.kinds[name].kind
        if kind in ("boolean", "integer", "number", "quantity_with_unit", "array", "enum"):
            continue
        if any(kind == other and is_same_value(value, its) for other, its in seen):
            raise NoTaskDrawn("two equal values")
        seen.append((kind, value))


def draw_frame(
    api: AskableApi, call: DrawnCall, rng: Random, *, without: str | None = None
) -> RequestFrame:
    """Return a phrase with slots that the call fills; NoTaskDrawn if none fits."""
    fitting = [
        frame
        for frame in api.frames[call.function]
        if set(frame.parameters) <= call.arguments.keys() and without not in frame.parameters
    ]
    if not fitting:
        raise NoTaskDrawn("no phrase")
    own = [frame for frame in fitting if frame.source == "file"]
    few = len(own) < len(fitting)  # beside ours
    share = min(_OWN_PHRASES_SHARE, _OWN_PHRASE_SHARE * len(own) if few else 1.0)
    if own and rng.random() < share:
        return rng.choice(own)
    from_doc = [frame for frame in fitting if frame.source == "doc"]
    of_acts = [frame for frame in fitting if frame.source.startswith("act")]
    share = _ACT_SHARE if api.words[call.function].operation else 1 - _DOC_SHARE
    share = share if api.is_small else 0.0 if call.words.method else _ACT_SHARE_OF_MANY
    share *= min(1.0, len(of_acts) / FEW_OF_ACTS)
    if of_acts and (not from_doc or rng.random() < share):
        return _by_mood(of_acts, rng)
    return _by_mood(from_doc or fitting, rng)


_MOODS = {"do": 2, "want": 1, "say": 1.5, "ask": 1.5}
MANY_OF_MOOD = 5  # phrases: fewer of one mood are said the less often


def _by_mood(frames: list[RequestFrame], rng: Random) -> RequestFrame:
    """Return a frame, statements and questions as often as orders though there are fewer."""
    counts = Counter(frame.mood for frame in frames)
    shares = [share * min(1.0, counts[mood] / MANY_OF_MOOD) for mood, share in _MOODS.items()]
    [mood] = rng.choices([*_MOODS], shares)
    return rng.choice([frame for frame in frames if frame.mood == mood])
