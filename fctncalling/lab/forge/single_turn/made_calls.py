"""Calls of made functions: which arguments the user says, and what is accepted for each."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from typing import Any

from fctncalling.envs.judging.oracle import OMITTED
from fctncalling.lab.forge.forged_entry import NoTaskDrawn
from fctncalling.lab.forge.single_turn.category_profiles import unit_conversions
from fctncalling.lab.forge.single_turn.frames import ParameterFrame
from fctncalling.lab.forge.single_turn.made_functions import MadeFunction, MadeParameter
from fctncalling.lab.forge.single_turn.value_kinds import (
    NUMBER_WORDS,
    DrawnValue,
    ValueKind,
    draw_value,
    enumerate_words,
)

MOST_REORDERED = 3  # words in a list whose order does not matter
SAID_SHARE = 0.36  # of the optional parameters
DERIVED_SHARE = 0.3  # of numbers that can be said in words or in another unit
_UNIT = re.compile(r"\{\} ([A-Za-z]+)(?! (?:per|of|a|an|old)\b)(?![\w/^])")
_ARTICLE = re.compile(r"^an? ")
_COUNTING = ("last ", "past ", "next ", "coming ")  # the last hour, not the last an hour
_AMOUNTS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, *map(float, range(4, 21)), 25.0, 30.0, 40.0, 50.0, 75.0)


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
            is_documented = default is not None or self.parameter.nullable
            return [OMITTED, default] if is_documented else [OMITTED]
        values = self.value.accepted
        omissible = not self.parameter.required and default is not None and default in values
        return [*values, OMITTED] if omissible else values


@dataclass(frozen=True)
class MadeCall:
    """A call of a function, with every parameter the function documents."""

    function: MadeFunction
    arguments: tuple[MadeArgument, ...]

    def ground_truth(self) -> dict[str, dict[str, list[Any]]]:
        """Return BFCL's {function: {parameter: [accepted values]}}; of a dict {member: ...}."""
        accepted: dict[str, list[Any]] = {}
        members: dict[str, list[Any]] = {}
        for each in self.arguments:
            of_dict = members if each.parameter.group else accepted
            of_dict[each.parameter.name] = each.accepted
        if members:
            group = next(each.parameter.group for each in self.arguments if each.parameter.group)
            unsaid = all(OMITTED in values for values in members.values())
            accepted[group] = [members, OMITTED] if unsaid else [members]
        return {self.function.name: accepted}

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

    A number may be one that follows from the words (`numbers_implied_by_clauses`). Raises
    NoTaskDrawn for a draw that makes no sense.
    """
    arguments = []
    for parameter in function.parameters:
        said = parameter.required or rng.random() < said_share
        value = draw_parameter_value(parameter, rng) if said else None
        if said and parameter.frame.name not in function.frame.slots:
            derived = numbers_implied_by_clauses(parameter)
            if derived and rng.random() < DERIVED_SHARE:
                value = rng.choice(derived)
        arguments.append(MadeArgument(parameter, value))
    if all(each.value is None for each in arguments):
        raise NoTaskDrawn("a call without arguments")
    call = MadeCall(function, tuple(arguments))
    if not call.is_sensible():
        raise NoTaskDrawn("two arguments that name the same")
    return call


def draw_parameter_value(parameter: MadeParameter, rng: random.Random) -> DrawnValue:
    """Return a value of a parameter; of one with members a dict of their accepted values.

    A few words in a list are accepted in any order.
    """
    frame = parameter.frame
    if parameter.kind.name == "dicts":
        return _dicts(frame, rng)
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
    return DrawnValue(
        {name: value.accepted for name, value in drawn.items()}, enumerate_words(texts)
    )


def _dicts(frame: ParameterFrame, rng: random.Random) -> DrawnValue:
    """Return a list of dicts, each said as the clauses of its members one after the other."""
    values, texts = list[dict[str, Any]](), list[str]()
    for _ in range(rng.randint(*map(int, frame.kind.args))):
        drawn = {member.name: draw_value(member.kind, rng) for member in frame.members}
        value = {name: value.accepted for name, value in drawn.items()}
        if any(value[name] == other[name] for other in values for name in value):
            raise NoTaskDrawn("two items of one name")
        values.append(value)
        clauses = (rng.choice(member.clauses) for member in frame.members)
        said = zip(clauses, drawn.values(), strict=True)
        texts.append(" ".join(clause.replace("{}", value.text) for clause, value in said))
    return DrawnValue(values, enumerate_words(texts))


def numbers_implied_by_clauses(parameter: MadeParameter) -> tuple[DrawnValue, ...]:
    """Return the values of a number that a clause says without the number itself.

    Either the table says so ("from rest" is 0), or the clause and the description name a unit that
    another one is a multiple of: "for half an hour" where minutes are wanted.
    """
    return _derived(parameter.frame, parameter.kind)


@cache
def _derived(frame: ParameterFrame, kind: ValueKind) -> tuple[DrawnValue, ...]:
    if kind.name not in ("int", "whole", "float"):
        return ()
    number = int if kind.name == "int" else float
    found = [DrawnValue(number(value), clause, clause=clause) for value, clause in frame.spoken]
    for clause in frame.clauses:
        unit = _UNIT.search(clause)
        if unit is None or not _is_of_unit(frame.description, unit[1]):
            continue
        for size, wholes, one, many in unit_conversions().get(unit[1], ()):
            for amount in _AMOUNTS:
                text = _amount_text(amount, one, many)
                if wholes and (amount % 1 or amount > 10):
                    continue
                if text and _may_be(amount * size, kind):
                    before = clause[: unit.start()]
                    said = _ARTICLE.sub("", text) if before.endswith(_COUNTING) else text
                    whole = before + said + clause[unit.end() :]
                    found.append(DrawnValue(number(amount * size), said, clause=whole))
    return tuple(found)


def _is_of_unit(description: str, unit: str) -> bool:
    """Whether a description names the unit of a clause, in full where the clause shortens it."""
    full = {"km": "kilometers", "kg": "kilograms", "g": "grams", "cm": "centimeters"}
    full |= {"ml": "milliliters", "mm": "millimeters", "Hz": "hertz", "inhabitants": "population"}
    named = f" {description} "
    return any(f" {word} " in named for word in (unit, full.get(unit, unit)))


def _may_be(value: float, kind: ValueKind) -> bool:
    low, high = float(kind.args[0]), float(kind.args[1])
    if not low <= value <= high:
        return False
    step = 1 if kind.name != "float" and len(kind.args) < 3 else float(kind.args[2])
    return kind.name == "float" or (value - low) % step == 0


def _amount_text(amount: float, one: str, many: str) -> str:
    """Return an amount of a unit in words: `half an hour`, `two hours`, `2.5 hours`."""
    if amount <= 1.0 and one == "-":
        return ""
    if amount == 0.5:
        return f"half {one}"
    if amount == 1.0:
        return one
    if amount <= 10 and amount.is_integer():
        return f"{NUMBER_WORDS[int(amount) - 1]} {many}"
    return f"{amount:g} {many}"
