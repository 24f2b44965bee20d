"""Requests for several calls: of one function, in one sentence or many; of several functions."""

from __future__ import annotations

import random
from collections.abc import Sequence

from fctncalling.forge.single_turn.forged_task import NoSuchTask
from fctncalling.forge.single_turn.made_calls import (
    MadeArgument,
    MadeCall,
    draw_argument,
    make_call,
)
from fctncalling.forge.single_turn.made_functions import MadeFunction
from fctncalling.forge.single_turn.requests import body, clauses, request, sentence
from fctncalling.forge.single_turn.value_kinds import DrawnValue, joined

_SEQUELS = ("then", "and then", "also", "and")
_NEXT = ("Also, ", "Then ", "After that, ", "Next, ", "In addition, ", "And ")
_LAST = ("Finally, ", "Last, ", "And lastly, ", "At the end, ")
_AGAIN = ("Do the same {}.", "Then the same {}.", "I need the same {} too.", "And again {}.")


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
    style = rng.random()
    if listable and style < 0.3:
        return _listed(first, rng.choice(listable), num_calls, question_share, rng)
    calls = [first, *(_another(first, rng) for _ in range(num_calls - 1))]
    if len({repr(call.ground_truth()) for call in calls}) < num_calls:
        raise NoSuchTask("the same call twice")
    if style < 0.65 and not function.frame.slots:
        return calls, _elliptic(calls, question_share, rng)
    return calls, separate_requests(calls, question_share, rng)


def separate_requests(calls: Sequence[MadeCall], question_share: float, rng: random.Random) -> str:
    """Return a sentence for each call, in their order."""
    if len({repr(call.ground_truth()) for call in calls}) < len(calls):
        raise NoSuchTask("the same call twice")
    texts = [request(call, rng, question_share=question_share) for call in calls]
    said = texts[0]
    for index, text in enumerate(texts[1:], 1):
        is_last = index == len(texts) - 1 and index > 1
        opening = rng.choice(_LAST if is_last else _NEXT) if rng.random() < 0.75 else ""
        said += f" {opening}{text if not opening or text.startswith('I') else _lower(text)}"
    return said


def _can_be_listed(argument: MadeArgument, function: MadeFunction) -> bool:
    """Whether several values of an argument can stand in its place: not beside an `and`."""
    kind, slots = argument.parameter.frame.kind, function.frame.slots
    if argument.parameter.frame.name in slots and len(slots) > 1:
        return False
    return kind.name in ("string", "enum", "int", "whole", "float", "rate", "date", "code", "time")


def _listed(
    first: MadeCall,
    varied: MadeArgument,
    num_calls: int,
    question_share: float,
    rng: random.Random,
) -> tuple[list[MadeCall], str]:
    """Return calls that differ in one argument, whose values one sentence lists."""
    values: list[DrawnValue] = []
    for _ in range(num_calls * 6):
        value = draw_argument(varied.parameter, rng)
        if len(values) < num_calls and all(value.value != other.value for other in values):
            values.append(value)
    if len(values) < num_calls:
        raise NoSuchTask("too few values")
    calls = [_with(first, varied, value) for value in values]
    shown = DrawnValue(None, joined([value.text for value in values]))
    return calls, request(_with(first, varied, shown), rng, question_share=question_share)


def _elliptic(calls: Sequence[MadeCall], question_share: float, rng: random.Random) -> str:
    """Return one whole sentence, and of the other calls only what differs."""
    first, *others = calls
    whole = sentence(first, body(first, rng), rng, question_share=question_share)
    texts = []
    for call in others:
        said = clauses(list(call.said().values()), rng).strip(" ,")
        texts.append(rng.choice(_AGAIN).format(f"for one {said}" if said[:3] == "of " else said))
    return " ".join([whole, *texts])


def _another(call: MadeCall, rng: random.Random) -> MadeCall:
    """Return a call of the same function with other values of the same arguments."""
    arguments = tuple(
        each
        if each.value is None
        else MadeArgument(each.parameter, draw_argument(each.parameter, rng))
        for each in call.arguments
    )
    return MadeCall(call.function, arguments)


def _with(call: MadeCall, varied: MadeArgument, value: DrawnValue) -> MadeCall:
    arguments = tuple(
        MadeArgument(each.parameter, value) if each is varied else each for each in call.arguments
    )
    return MadeCall(call.function, arguments)


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
