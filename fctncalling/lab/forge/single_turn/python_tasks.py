"""Single-turn tasks with Python functions: one call, several, of one function or of many."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from fctncalling.lab.forge.single_turn.category_profiles import (
    PROFILES,
    CategoryProfile,
    draw_number,
)
from fctncalling.lab.forge.single_turn.forged_task import NoSuchTask, SingleTurnTask
from fctncalling.lab.forge.single_turn.frames import Domain, FunctionFrame, domains
from fctncalling.lab.forge.single_turn.made_calls import MadeCall, make_call
from fctncalling.lab.forge.single_turn.made_functions import MadeFunction, make_function
from fctncalling.lab.forge.single_turn.parallel_requests import parallel_request, separate_requests
from fctncalling.lab.forge.single_turn.requests import request, with_articles
from fctncalling.lab.forge.single_turn.table_files import read_word_lists, related_nouns
from fctncalling.lab.forge.single_turn.value_kinds import word_list

SAME_DOMAIN = 0.7  # of the functions offered besides the right one
MODE_WEIGHTS = {"look": 0.5, "find": 0.8, "act": 0.9}
SECOND_SHARE = 0.7  # of reasons that follow another, where closing sentences are usual
DOMAIN_CONTEXT_SHARE = 0.5  # of reasons that fit the domain
_SLOT = re.compile(r"\{(\w+)\}")
TUPLE_WEIGHT = 0.4  # of frames with a parameter that is a tuple
LIST_WEIGHT = 3.0  # of frames with a parameter that is a list


def python_task(category: str, rng: random.Random) -> SingleTurnTask:
    """Return a task of a category. Raises NoSuchTask for a draw that gives none."""
    profile = PROFILES[category]
    domain = rng.choice(domains())
    frames = distinct_frames(domain, draw_number(profile.functions, rng), rng, profile)
    functions = [function_of_frame(frame, profile, rng) for frame in frames]
    if len({function.name for function in functions}) < len(functions):
        raise NoSuchTask("two functions of one name")
    num_calls = draw_number(profile.calls, rng)
    calls, question = _calls(category, functions, num_calls, profile, rng)
    question = with_context(question, domain, profile, rng)
    rng.shuffle(functions)
    return SingleTurnTask(
        question,
        [function.doc for function in functions],
        [call.ground_truth() for call in calls],
        provenance_of(domain.name, calls),
    )


def _calls(
    category: str,
    functions: Sequence[MadeFunction],
    num_calls: int,
    profile: CategoryProfile,
    rng: random.Random,
) -> tuple[list[MadeCall], str]:
    if category == "parallel":
        return parallel_request(
            functions[0], num_calls, profile.question_share, rng, profile.said_share
        )
    if category == "parallel_multiple":
        used = functions[: min(num_calls, len(functions))]
        chosen = [*used, *rng.choices(used, k=num_calls - len(used))]
        calls = [make_call(function, rng, profile.said_share) for function in chosen]
        return calls, separate_requests(calls, profile.question_share, rng)
    call = make_call(functions[0], rng)
    return [call], request(call, rng, question_share=profile.question_share)


def with_context(
    question: str, domain: Domain, profile: CategoryProfile, rng: random.Random
) -> str:
    """Return a question with a reason in front and a closing sentence behind, where drawn."""
    if rng.random() < profile.context_share:
        if rng.random() < DOMAIN_CONTEXT_SHARE:
            question = f"{rng.choice(domain.contexts)} {question}"
        else:
            question = f"{aside('before', rng)} {question}"
        if rng.random() < profile.closing_share * SECOND_SHARE:
            question = f"{aside('before', rng)} {question}"
    if rng.random() < profile.closing_share:
        question = f"{question} {aside('after', rng)}"
    return question


def aside(place: str, rng: random.Random) -> str:
    """Return a sentence that asks for nothing, to stand before or after a request."""
    text = rng.choice(read_word_lists("asides")[place])
    return f"{with_drawn_words(text, rng)}."


def with_drawn_words(text: str, rng: random.Random) -> str:
    """Return a text in which a word of the list takes the place of each `{list}`."""
    said = _SLOT.sub(lambda found: rng.choice(word_list(found[1])).partition("=")[0], text)
    return with_articles(said)


def function_of_frame(
    frame: FunctionFrame, profile: CategoryProfile, rng: random.Random
) -> MadeFunction:
    """Return a function of a frame, as large as the profile draws."""
    return make_function(frame, draw_number(profile.parameters, rng), profile, rng)


def distinct_frames(
    domain: Domain, count: int, rng: random.Random, profile: CategoryProfile
) -> list[FunctionFrame]:
    """Return frames that do different things: most of the domain, some of another one."""
    weights = [frame_weight(frame, profile.compute_weight) for frame in domain.frames]
    frames = rng.choices(domain.frames, weights=weights)
    while len(frames) < count:
        of_domain = domain if rng.random() < SAME_DOMAIN else rng.choice(domains())
        weights = [frame_weight(frame, profile.compute_weight) for frame in of_domain.frames]
        [frame] = rng.choices(of_domain.frames, weights=weights)
        if not any(may_serve(frame, other) for other in frames):
            frames.append(frame)
    return frames


def may_serve(frame: FunctionFrame, other: FunctionFrame) -> bool:
    """Whether who wants one of two functions may be served by the other."""
    same_tail = frame.domain == other.domain and frame.tail == other.tail
    if frame.noun == other.noun or (same_tail and frame.mode != "look"):
        return True
    return any(frame.noun in group and other.noun in group for group in related_nouns())


@cache
def frame_weight(frame: FunctionFrame, compute_weight: float) -> float:
    """Return how often a frame is drawn, by its mode and the kinds of its parameters."""
    weight = MODE_WEIGHTS.get(frame.mode, compute_weight)
    if any(each.kind.name == "tuple" for each in frame.parameters):
        return weight * TUPLE_WEIGHT
    lists = any(each.kind.item_type for each in frame.parameters)
    return weight * (LIST_WEIGHT if lists else 1.0)


def provenance_of(domain: str, calls: Sequence[MadeCall]) -> dict[str, Any]:
    """Return where a task comes from: its domain, frames, and the source of each argument."""
    sources = {"said": 0, "default": 0}
    for call in calls:
        for argument in call.arguments:
            sources["default" if argument.value is None else "said"] += 1
    return {
        "domain": domain,
        "frames": [f"{call.function.frame.domain}/{call.function.frame.noun}" for call in calls],
        "arguments": sources,
    }
