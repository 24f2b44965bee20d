"""Irrelevance tasks: a question, and one function that cannot answer it, near or far."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from fctncalling.lab.forge.forged_entry import NoTaskDrawn, SingleTurnTask
from fctncalling.lab.forge.measures import content_words
from fctncalling.lab.forge.single_turn.category_profiles import PROFILES, read_word_lists
from fctncalling.lab.forge.single_turn.frames import Domain, FunctionTemplate, domains
from fctncalling.lab.forge.single_turn.made_calls import (
    MadeArgument,
    MadeCall,
    is_plural,
    make_call,
    request_for_call,
)
from fctncalling.lab.forge.single_turn.made_functions import MadeParameter, make_function
from fctncalling.lab.forge.single_turn.python_tasks import (
    SAME_DOMAIN,
    distinct_frames,
    fill_word_slots,
    function_of_frame,
    may_serve_each_other,
    task_provenance,
)
from fctncalling.lab.forge.single_turn.value_kinds import DrawnValue
from fctncalling.lab.own_api.english import correct_articles

PROFILE = PROFILES["irrelevance"]
SHORT_ASKED = 0.6  # of questions for another function of the domain that ask for one fact
KIN = 4  # functions of a domain among which a near one is drawn
ABOUT_SHARE = 0.4  # of the questions no function answers: about what the function is named after
SYMBOLS_SHARE = 0.3  # of the tasks with values left out: letters stand in their place
_GUESSED = frozenset(("bool", "enum", "count", "part"))
"""Kinds of which one may take a value for granted."""
_VAGUE = re.compile(r"\b(?:given|some|something|another|one|kinds|pieces|a number of|an amount)\b")


def irrelevant_task(rng: random.Random) -> SingleTurnTask:
    """Return a question and one function that cannot answer it.

    Near misses: another aspect of what the function tells, a function that resembles the one that
    is wanted, the same fact of another thing, the right function without a value that it needs.
    Others: a question that no function answers, a function of the domain, any function. Raises
    NoTaskDrawn for a draw that gives none.
    """
    domain = rng.choice(domains())
    [how] = rng.choices(list(_WAYS), weights=[weight for weight, _ in _WAYS.values()])
    task = _WAYS[how][1](domain, rng)
    return replace(task, provenance=task.provenance | {"irrelevance": how})


def _other_aspect(domain: Domain, rng: random.Random) -> SingleTurnTask:
    families = [frames for frames in _families(domain.name).values() if len(frames) > 1]
    if not families:
        raise NoTaskDrawn("no family")
    asked, offered = rng.sample(rng.choice(families), 2)
    return _offering(asked, offered, rng)


@cache
def _families(domain: str) -> dict[str, list[FunctionTemplate]]:
    [frames] = (each.frames for each in domains() if each.name == domain)
    families = defaultdict(list)
    for frame in frames:
        if frame.family:
            families[frame.family].append(frame)
    return families


def _kin(domain: Domain, rng: random.Random) -> SingleTurnTask:
    [asked] = distinct_frames(domain, 1, rng, PROFILE)
    words = content_words(asked.generic())
    others = [frame for frame in domain.frames if not may_serve_each_other(asked, frame)]
    others.sort(key=lambda frame: -len(words & content_words(frame.generic())))
    return _offering(asked, rng.choice(others[:KIN]), rng)


def _other_thing(_: Domain, rng: random.Random) -> SingleTurnTask:
    alike = [frames for frames in _of_aspects().values() if len(frames) > 1]
    asked, offered = rng.sample(rng.choice(alike), 2)
    if asked.family == offered.family:
        raise NoTaskDrawn("the same thing")
    return _offering(asked, offered, rng)


@cache
def _of_aspects() -> dict[str, list[FunctionTemplate]]:
    alike = defaultdict(list)
    for domain in domains():
        for frame in domain.frames:
            if frame.aspect:
                alike[frame.aspect].append(frame)
    return alike


def _of_domain(domain: Domain, rng: random.Random) -> SingleTurnTask:
    asked, offered = distinct_frames(domain, 2, rng, PROFILE)
    looks = [frame for frame in domain.frames if frame.mode == "look" and frame != offered]
    if looks and rng.random() < SHORT_ASKED and offered.mode != "look":
        asked = rng.choice(looks)
    return _offering(asked, offered, rng)


def _far(domain: Domain, rng: random.Random) -> SingleTurnTask:
    asked = rng.choice(domain.frames)
    return _offering(asked, rng.choice(rng.choice(domains()).frames), rng)


def _offering(
    asked: FunctionTemplate, offered: FunctionTemplate, rng: random.Random
) -> SingleTurnTask:
    """Return a request for one function with another one offered."""
    if may_serve_each_other(asked, offered):
        raise NoTaskDrawn("the function fits")
    call = make_call(make_function(asked, rng.choice((1, 1, 2)), PROFILE, rng), rng)
    return _task(_asked(call, rng), offered, [call], rng)


def _asked(call: MadeCall, rng: random.Random) -> str:
    return request_for_call(call, rng, question_share=PROFILE.question_share)


def _task(
    question: str, offered: FunctionTemplate, calls: Sequence[MadeCall], rng: random.Random
) -> SingleTurnTask:
    function = function_of_frame(offered, PROFILE, rng)
    told = {"offered": f"{offered.domain}/{offered.noun}"}
    return SingleTurnTask(
        question, [function.doc], None, task_provenance(offered.domain, calls) | told
    )


def _unsaid(domain: Domain, rng: random.Random) -> SingleTurnTask:
    """Return a request for the function that is offered, without a value that it needs."""
    frame = rng.choice(domain.frames)
    call = make_call(function_of_frame(frame, PROFILE, rng), rng)
    needed = [
        each
        for each in call.arguments
        if each.parameter.required
        and not each.parameter.frame.optional
        and each.parameter.kind.name not in _GUESSED
    ]
    if not needed:
        raise NoTaskDrawn("nothing to leave out")
    numbers = [each for each in needed if each.parameter.kind.name in ("int", "whole", "float")]
    if frame.mode == "compute" and len(numbers) == len(needed) and rng.random() < SYMBOLS_SHARE:
        left_out: dict[str, DrawnValue | None] = {
            each.parameter.name: _letter(each.parameter) for each in numbers
        }
        if len(set(left_out.values())) < len(numbers):
            raise NoTaskDrawn("one letter for two values")
    else:
        kept = rng.randrange(len(needed))
        left_out = {each.parameter.name: _named(each, frame) for each in needed[kept:]}
    arguments = tuple(
        replace(each, value=left_out.get(each.parameter.name, each.value))
        for each in call.arguments
    )
    said = replace(call, arguments=arguments)
    task = _task(_asked(said, rng), frame, [said], rng)
    open_ones = {"left_open": sorted(left_out)}
    return replace(task, functions=[call.function.doc], provenance=task.provenance | open_ones)


def _letter(parameter: MadeParameter) -> DrawnValue:
    letter = parameter.name[0]
    return DrawnValue(letter, f"'{letter}'")


def _named(argument: MadeArgument, frame: FunctionTemplate) -> DrawnValue | None:
    """Return a value left open: nothing where a clause would say it, in the noun phrase a word."""
    name = argument.parameter.frame.name
    if name not in frame.slots:
        return None
    word = frame.generic_words().get(name, "")
    if not word or _VAGUE.search(word) or '"' in frame.phrases[0]:
        raise NoTaskDrawn("no word for what is left out")
    return DrawnValue(word, word)


def _unanswerable(domain: Domain, rng: random.Random) -> SingleTurnTask:
    """Return a question that no function answers, maybe about what the function deals with."""
    if rng.random() < ABOUT_SHARE:
        frame = rng.choice(domain.frames)
        subject = frame.generic()
        if _VAGUE.search(subject) or is_plural(subject) != (frame.mode == "find"):
            raise NoTaskDrawn("a subject that cannot be asked about")
        if frame.mode == "act":
            subject = f"{rng.choice(frame.verbs).replace('_', ' ')} {subject}"
        question = rng.choice(_questions(f"about {frame.mode}")).replace("*", subject)
        return _task(correct_articles(question), frame, [], rng)
    question = fill_word_slots(rng.choice(_questions(domain.name)), rng)
    of_domain = domain if rng.random() < SAME_DOMAIN else rng.choice(domains())
    return _task(question, rng.choice(of_domain.frames), [], rng)


def _questions(name: str) -> tuple[str, ...]:
    return read_word_lists("questions")[name]


_WAYS: dict[str, tuple[float, Callable[[Domain, random.Random], SingleTurnTask]]] = {
    "other aspect": (0.12, _other_aspect),
    "kin": (0.12, _kin),
    "other thing": (0.05, _other_thing),
    "unsaid": (0.12, _unsaid),
    "unanswerable": (0.32, _unanswerable),
    "domain": (0.15, _of_domain),
    "far": (0.12, _far),
}
"""Way to an irrelevant function -> its share, and what draws it."""
