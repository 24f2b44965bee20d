"""Single-turn tasks with Python functions: one call, several, several functions, or none."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from fctncalling.forge.single_turn.category_profiles import (
    PROFILES,
    CategoryProfile,
    draw_number,
)
from fctncalling.forge.single_turn.forged_task import NoSuchTask, SingleTurnTask
from fctncalling.forge.single_turn.frames import Domain, FunctionFrame, domains
from fctncalling.forge.single_turn.made_calls import MadeCall, make_call
from fctncalling.forge.single_turn.made_functions import MadeFunction, make_function
from fctncalling.forge.single_turn.parallel_requests import parallel_request, separate_requests
from fctncalling.forge.single_turn.requests import request

SAME_DOMAIN = 0.7  # of the functions offered besides the right one
MODE_WEIGHTS = {"compute": 1.6, "look": 0.7, "find": 0.8, "act": 0.9}


def python_task(category: str, rng: random.Random) -> SingleTurnTask:
    """Return a task of a category. Raises NoSuchTask for a draw that gives none."""
    profile = PROFILES[category]
    domain = rng.choice(domains())
    if category == "irrelevance":
        return _irrelevant(profile, domain, rng)
    frames = _distinct_frames(domain, draw_number(profile.functions, rng), rng)
    functions = [_function(frame, profile, rng) for frame in frames]
    if len({function.name for function in functions}) < len(functions):
        raise NoSuchTask("two functions of one name")
    num_calls = draw_number(profile.calls, rng)
    calls, question = _calls(category, functions, num_calls, profile, rng)
    if profile.context_share and rng.random() < profile.context_share:
        question = f"{rng.choice(domain.contexts)} {question}"
    rng.shuffle(functions)
    return SingleTurnTask(
        question,
        [function.doc for function in functions],
        None if category == "live_relevance" else [call.ground_truth() for call in calls],
        _provenance(domain, calls),
    )


def _calls(
    category: str,
    functions: Sequence[MadeFunction],
    num_calls: int,
    profile: CategoryProfile,
    rng: random.Random,
) -> tuple[list[MadeCall], str]:
    if category == "parallel":
        return parallel_request(functions[0], num_calls, profile.question_share, rng)
    if category == "parallel_multiple":
        used = functions[: min(num_calls, len(functions))]
        chosen = [*used, *rng.choices(used, k=num_calls - len(used))]
        calls = [make_call(function, rng) for function in chosen]
        return calls, separate_requests(calls, profile.question_share, rng)
    call = make_call(functions[0], rng)
    return [call], request(call, rng, question_share=profile.question_share)


def _irrelevant(profile: CategoryProfile, domain: Domain, rng: random.Random) -> SingleTurnTask:
    """Return a question and one function of the same domain that does something else."""
    asked, offered = _distinct_frames(domain, 2, rng)
    if rng.random() > SAME_DOMAIN:
        offered = rng.choice(rng.choice(domains()).frames)
        if offered.noun == asked.noun:
            raise NoSuchTask("the function fits")
    wanted = make_function(asked, 2, 0.0, rng)
    call = make_call(wanted, rng)
    function = _function(offered, profile, rng)
    question = request(call, rng, question_share=profile.question_share)
    return SingleTurnTask(question, [function.doc], None, _provenance(domain, [call]))


def _function(frame: FunctionFrame, profile: CategoryProfile, rng: random.Random) -> MadeFunction:
    return make_function(frame, draw_number(profile.parameters, rng), profile.dotted_share, rng)


def _distinct_frames(domain: Domain, count: int, rng: random.Random) -> list[FunctionFrame]:
    """Return frames that do different things: most of the domain, some of another one."""
    weights = [MODE_WEIGHTS[frame.mode] for frame in domain.frames]
    frames = rng.choices(domain.frames, weights=weights)
    while len(frames) < count:
        of_domain = domain if rng.random() < SAME_DOMAIN else rng.choice(domains())
        frame = rng.choice(of_domain.frames)
        if all(frame.noun != other.noun and frame.tail != other.tail for other in frames):
            frames.append(frame)
    return frames


def _provenance(domain: Domain, calls: Sequence[MadeCall]) -> dict[str, Any]:
    """Return where a task comes from: its domain, frames, and the source of each argument."""
    sources = {"said": 0, "default": 0}
    for call in calls:
        for argument in call.arguments:
            sources["default" if argument.value is None else "said"] += 1
    return {
        "domain": domain.name,
        "frames": [f"{call.function.frame.domain}/{call.function.frame.noun}" for call in calls],
        "arguments": sources,
    }
