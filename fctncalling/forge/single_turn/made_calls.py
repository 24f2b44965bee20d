"""Calls of made functions: which arguments the user says, and what is accepted for each."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

from fctncalling.envs.judging.oracle import OMITTED
from fctncalling.forge.single_turn.forged_task import NoSuchTask
from fctncalling.forge.single_turn.made_functions import MadeFunction, MadeParameter
from fctncalling.forge.single_turn.value_kinds import DrawnValue, draw_value, joined

MOST_REORDERED = 3  # words in a list whose order does not matter
SAID_SHARE = 0.66  # of the optional parameters


@dataclass(frozen=True)
class MadeArgument:
    """An argument: the value that the user says, None where nothing is said of the parameter."""

    parameter: MadeParameter
    value: DrawnValue | None

    @property
    def accepted(self) -> list[Any]:
        """The accepted values, BFCL's mark for "may be left out" among them."""
        default = self.parameter.default
        if self.value is None:
            return [OMITTED] if default is None else [OMITTED, default]
        values = self.value.accepted
        omissible = not self.parameter.required and default is not None and default in values
        return [*values, OMITTED] if omissible else values


@dataclass(frozen=True)
class MadeCall:
    """A call of a function, with every parameter the function documents."""

    function: MadeFunction
    arguments: tuple[MadeArgument, ...]

    def ground_truth(self) -> dict[str, dict[str, list[Any]]]:
        """Return BFCL's {function: {parameter: [accepted values]}}."""
        return {self.function.name: {each.parameter.name: each.accepted for each in self.arguments}}

    def is_sensible(self) -> bool:
        """Whether no two arguments name the same: nobody goes from Osaka to Osaka."""
        named = [
            set(map(str, each.value.accepted))
            for each in self.arguments
            if each.value is not None and each.parameter.kind.name == "string"
        ]
        return all(one.isdisjoint(other) for one, other in combinations(named, 2))

    def said(self) -> dict[str, MadeArgument]:
        """Return the arguments the user says, by the frame's parameter names."""
        return {
            each.parameter.frame.name: each for each in self.arguments if each.value is not None
        }


def make_call(
    function: MadeFunction, rng: random.Random, said_share: float = SAID_SHARE
) -> MadeCall:
    """Return a call whose arguments are drawn; an optional one may go unsaid.

    Raises NoSuchTask for a draw that makes no sense.
    """
    arguments = []
    for parameter in function.parameters:
        said = parameter.required or rng.random() < said_share
        value = draw_argument(parameter, rng) if said else None
        arguments.append(MadeArgument(parameter, value))
    call = MadeCall(function, tuple(arguments))
    if not call.is_sensible():
        raise NoSuchTask("two arguments that name the same")
    return call


def draw_argument(parameter: MadeParameter, rng: random.Random) -> DrawnValue:
    """Return a value of a parameter; of one with members a dict of their accepted values.

    A few words in a list are accepted in any order.
    """
    frame = parameter.frame
    if not frame.members:
        value = draw_value(parameter.kind, rng)
        if parameter.kind.name == "array" and len(value.value) <= MOST_REORDERED:
            return value._replace(others=tuple(map(list, permutations(value.value)))[1:])
        return value
    drawn = {member.name: draw_value(member.kind, rng) for member in frame.members}
    texts = [
        rng.choice(member.clauses).replace("{}", drawn[member.name].text)
        for member in frame.members
    ]
    return DrawnValue({name: value.accepted for name, value in drawn.items()}, joined(texts))
