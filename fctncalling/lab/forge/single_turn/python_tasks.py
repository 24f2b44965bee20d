"""Single-turn tasks with Python functions: one call, several, of one function or of many."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from fctncalling.lab.forge.forged_entry import NoTaskDrawn, SingleTurnTask
from fctncalling.lab.forge.single_turn.category_profiles import (
    PROFILES,
    CategoryProfile,
    draw_number,
    read_word_lists,
    related_noun_groups,
)
from fctncalling.lab.forge.single_turn.frames import (
    Domain,
    FunctionTemplate,
    common_optional_parameters,
    domains,
)
from fctncalling.lab.forge.single_turn.made_calls import (
    MadeArgument,
    MadeCall,
    argument_clauses,
    draw_parameter_value,
    make_call,
    request_as_order,
    request_body,
    request_for_call,
    request_sentence,
)
from fctncalling.lab.forge.single_turn.made_functions import MadeFunction, make_function
from fctncalling.lab.forge.single_turn.value_kinds import DrawnValue, word_list
from fctncalling.lab.own_api.english import correct_articles, enumerated, lower_first

_NEXT = ("Also, ", "Then ", "After that, ", "Next, ", "In addition, ", "And ")
_LAST = ("Finally, ", "Last, ", "And lastly, ", "At the end, ")
_COUNTED = ("First, ", "Second, ", "Third, ", "Fourth, ")
_AGAIN = ("Do the same {}.", "Then the same {}.", "I need the same {} too.", "And again {}.")
_JOINTS = (", then ", ", and then ", ", and after that ", ", next ")
_LAST_JOINTS = (" and ", ", and finally ", " and lastly ", ", and ")
_BOTH = (" and ", ", and then ", " and also ", ", then ")
_FURTHER = (", and ", " and also ", ", then ", ", and then ")

LISTED_SHARE = 0.36  # of requests for calls that differ in one argument, where one can be listed
ELLIPTIC_SHARE = 0.42  # of the others that say only what differs
ONE_SENTENCE_SHARE = 0.75  # of those, in one sentence
JOINED_SHARE = 0.35  # of requests for several things that are one sentence
COUNTED_SHARE = 0.15  # of the others that are counted: first, second, ...
SAME_SHARE = 0.8  # of the options (format, language, precision) that further calls have too


def parallel_request(
    function: MadeFunction,
    num_calls: int,
    question_share: float,
    rng: random.Random,
    said_share: float = 0.85,
) -> tuple[list[MadeCall], str]:
    """Return distinct calls of one function and the words that ask for them."""
    first = make_call(function, rng, said_share)
    listable = [
        each
        for each in first.arguments
        if each.value is not None and _can_be_listed(each, function)
    ]
    if listable and rng.random() < LISTED_SHARE:
        return _listed(first, rng.choice(listable), num_calls, question_share, rng)
    calls = [first, *(_another(first, rng) for _ in range(num_calls - 1))]
    if len({repr(call.ground_truth()) for call in calls}) < num_calls:
        raise NoTaskDrawn("the same call twice")
    if not all(call.is_sensible() for call in calls):
        raise NoTaskDrawn("two arguments that name the same")
    if rng.random() < ELLIPTIC_SHARE and not function.frame.slots:
        return calls, _elliptic(calls, question_share, rng)
    return calls, separate_requests(calls, question_share, rng)


def separate_requests(calls: Sequence[MadeCall], question_share: float, rng: random.Random) -> str:
    """Return a sentence for each call, in their order."""
    if len({repr(call.ground_truth()) for call in calls}) < len(calls):
        raise NoTaskDrawn("the same call twice")
    if rng.random() < JOINED_SHARE:
        return _one_sentence(calls, question_share, rng)
    texts = [request_for_call(call, rng, question_share=question_share) for call in calls]
    counted = len(calls) <= len(_COUNTED) and rng.random() < COUNTED_SHARE
    said = ""
    for index, text in enumerate(texts):
        is_last = index == len(texts) - 1 and index > 1
        opening = rng.choice(_LAST if is_last else _NEXT) if rng.random() < 0.75 else ""
        opening = _COUNTED[index] if counted else opening if index else ""
        said += f" {opening}{text if not opening or text.startswith('I') else lower_first(text)}"
    return said.strip()


def _one_sentence(calls: Sequence[MadeCall], question_share: float, rng: random.Random) -> str:
    """Return one sentence of orders: "Archive the file, then find ... and show me ..."."""
    orders = [lower_first(request_as_order(call, request_body(call, rng), rng)) for call in calls]
    said = orders[0]
    for index, text in enumerate(orders[1:], 1):
        last = _LAST_JOINTS if index > 1 else _BOTH
        said += rng.choice(last if index == len(orders) - 1 else _JOINTS) + text
    if rng.random() < question_share:
        return rng.choice(("Can you {}?", "Could you {}?", "Can you please {}?")).format(said)
    return f"{said[0].upper()}{said[1:]}."


def _can_be_listed(argument: MadeArgument, function: MadeFunction) -> bool:
    """Whether several values of an argument can stand in its place: not beside an `and`."""
    kind, slots = argument.parameter.frame.kind, function.frame.slots
    if argument.parameter.frame.name in slots and len(slots) > 1:
        return False
    return kind.name in ("string", "enum", "int", "whole", "float", "rate", "date", "code", "time")


def _listed(
    first: MadeCall, varied: MadeArgument, num_calls: int, question_share: float, rng: random.Random
) -> tuple[list[MadeCall], str]:
    """Return calls that differ in one argument, whose values one sentence lists."""
    values: list[DrawnValue] = []
    for _ in range(num_calls * 6):
        value = draw_parameter_value(varied.parameter, rng)
        if len(values) < num_calls and all(value.value != other.value for other in values):
            values.append(value)
    if len(values) < num_calls:
        raise NoTaskDrawn("too few values")
    calls = [_with(first, varied, value) for value in values]
    if not all(call.is_sensible() for call in calls):
        raise NoTaskDrawn("two arguments that name the same")
    shown = DrawnValue(None, enumerated([value.text for value in values]))
    return calls, request_for_call(_with(first, varied, shown), rng, question_share=question_share)


def _elliptic(calls: Sequence[MadeCall], question_share: float, rng: random.Random) -> str:
    """Return one whole request, and of the other calls only what differs from it."""
    first, *others = calls
    said = request_body(first, rng)
    further = [_difference(first, call, rng) for call in others]
    if rng.random() < ONE_SENTENCE_SHARE:
        for index, text in enumerate(further):
            is_last = index == len(further) - 1
            said += rng.choice(_LAST_JOINTS if is_last and index else _FURTHER) + text
        return request_sentence(first, said, rng, question_share=question_share)
    whole = request_sentence(first, said, rng, question_share=question_share)
    return " ".join([whole, *(rng.choice(_AGAIN).format(text) for text in further)])


def _difference(first: MadeCall, call: MadeCall, rng: random.Random) -> str:
    """Return the clauses of the arguments that differ between two calls."""
    before = first.said()
    differing = [each for name, each in call.said().items() if each.value != before[name].value]
    said = argument_clauses(differing, rng).strip(" ,")
    return f"for {said[3:]}" if said[:3] == "of " else said


def _another(call: MadeCall, rng: random.Random) -> MadeCall:
    """Return a call of the same function with other values of the same arguments.

    What only says how (a format, a precision) mostly stays the same.
    """
    options = {each.name for each in common_optional_parameters(call.function.frame)}
    arguments = tuple(
        each
        if each.value is None
        or (each.parameter.frame.name in options and rng.random() < SAME_SHARE)
        else MadeArgument(each.parameter, draw_parameter_value(each.parameter, rng))
        for each in call.arguments
    )
    return MadeCall(call.function, arguments)


def _with(call: MadeCall, varied: MadeArgument, value: DrawnValue) -> MadeCall:
    arguments = tuple(
        MadeArgument(each.parameter, value) if each is varied else each for each in call.arguments
    )
    return MadeCall(call.function, arguments)


SAME_DOMAIN = 0.7  # of the functions offered besides the right one
MODE_WEIGHTS = {"look": 0.5, "find": 0.8, "act": 0.9}
SECOND_SHARE = 0.7  # of reasons that follow another, where closing sentences are usual
DOMAIN_CONTEXT_SHARE = 0.5  # of reasons that fit the domain
_SLOT = re.compile(r"\{(\w+)\}")
TUPLE_WEIGHT = 0.4  # of frames with a parameter that is a tuple
LIST_WEIGHT = 3.0  # of frames with a parameter that is a list


def python_task(category: str, rng: random.Random) -> SingleTurnTask:
    """Return a task of a category. Raises NoTaskDrawn for a draw that gives none."""
    profile = PROFILES[category]
    domain = rng.choice(domains())
    frames = distinct_frames(domain, draw_number(profile.functions, rng), rng, profile)
    functions = [function_of_frame(frame, profile, rng) for frame in frames]
    if len({function.name for function in functions}) < len(functions):
        raise NoTaskDrawn("two functions of one name")
    num_calls = draw_number(profile.calls, rng)
    calls, question = _calls(category, functions, num_calls, profile, rng)
    question = with_context(question, domain, profile, rng)
    rng.shuffle(functions)
    return SingleTurnTask(
        question,
        [function.doc for function in functions],
        [call.ground_truth() for call in calls],
        task_provenance(domain.name, calls),
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
    return [call], request_for_call(call, rng, question_share=profile.question_share)


def with_context(
    question: str, domain: Domain, profile: CategoryProfile, rng: random.Random
) -> str:
    """Return a question with a reason in front and a closing sentence behind, where drawn."""
    if rng.random() < profile.context_share:
        if rng.random() < DOMAIN_CONTEXT_SHARE:
            question = f"{rng.choice(domain.contexts)} {question}"
        else:
            question = f"{draw_aside('before', rng)} {question}"
        if rng.random() < profile.closing_share * SECOND_SHARE:
            question = f"{draw_aside('before', rng)} {question}"
    if rng.random() < profile.closing_share:
        question = f"{question} {draw_aside('after', rng)}"
    return question


def draw_aside(place: str, rng: random.Random) -> str:
    """Return a sentence that asks for nothing, to stand before or after a request."""
    text = rng.choice(read_word_lists("asides")[place])
    return f"{fill_word_slots(text, rng)}."


def fill_word_slots(text: str, rng: random.Random) -> str:
    """Return a text in which a word of the list takes the place of each `{list}`."""
    said = _SLOT.sub(lambda found: rng.choice(word_list(found[1])).partition("=")[0], text)
    return correct_articles(said)


def function_of_frame(
    frame: FunctionTemplate, profile: CategoryProfile, rng: random.Random
) -> MadeFunction:
    """Return a function of a frame, as large as the profile draws."""
    return make_function(frame, draw_number(profile.parameters, rng), profile, rng)


def distinct_frames(
    domain: Domain, count: int, rng: random.Random, profile: CategoryProfile
) -> list[FunctionTemplate]:
    """Return frames that do different things: most of the domain, some of another one."""
    weights = [frame_weight(frame, profile.compute_weight) for frame in domain.frames]
    frames = rng.choices(domain.frames, weights=weights)
    while len(frames) < count:
        of_domain = domain if rng.random() < SAME_DOMAIN else rng.choice(domains())
        weights = [frame_weight(frame, profile.compute_weight) for frame in of_domain.frames]
        [frame] = rng.choices(of_domain.frames, weights=weights)
        if not any(may_serve_each_other(frame, other) for other in frames):
            frames.append(frame)
    return frames


def may_serve_each_other(frame: FunctionTemplate, other: FunctionTemplate) -> bool:
    """Whether who wants one of two functions may be served by the other."""
    same_tail = frame.domain == other.domain and frame.tail == other.tail
    if frame.noun == other.noun or (same_tail and frame.mode != "look"):
        return True
    return any(frame.noun in group and other.noun in group for group in related_noun_groups())


@cache
def frame_weight(frame: FunctionTemplate, compute_weight: float) -> float:
    """Return how often a frame is drawn, by its mode and the kinds of its parameters."""
    weight = MODE_WEIGHTS.get(frame.mode, compute_weight)
    if any(each.kind.name == "tuple" for each in frame.parameters):
        return weight * TUPLE_WEIGHT
    lists = any(each.kind.item_type for each in frame.parameters)
    return weight * (LIST_WEIGHT if lists else 1.0)


def task_provenance(domain: str, calls: Sequence[MadeCall]) -> dict[str, Any]:
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
