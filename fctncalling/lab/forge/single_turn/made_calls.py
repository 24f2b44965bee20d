"""Calls of made functions: which arguments the user says, what is accepted, the words that ask."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from typing import Any

from fctncalling.envs.judging.oracle import OMITTED
from fctncalling.lab.forge.forged_entry import NoTaskDrawn
from fctncalling.lab.forge.single_turn.category_profiles import unit_conversions
from fctncalling.lab.forge.single_turn.frames import ParameterFrame, fill_phrase
from fctncalling.lab.forge.single_turn.made_functions import (
    MadeFunction,
    MadeParameter,
    function_phrases,
)
from fctncalling.lab.forge.single_turn.value_kinds import (
    NUMBER_WORDS,
    DrawnValue,
    ValueKind,
    draw_value,
)
from fctncalling.lab.own_api.english import correct_articles, enumerated, lower_first, singular

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
    texts = _member_texts(frame, drawn, rng)
    return DrawnValue({name: value.accepted for name, value in drawn.items()}, enumerated(texts))


def _dicts(frame: ParameterFrame, rng: random.Random) -> DrawnValue:
    """Return a list of dicts, each said as the clauses of its members one after the other."""
    values, texts = list[dict[str, Any]](), list[str]()
    for _ in range(rng.randint(*map(int, frame.kind.args))):
        drawn = {member.name: draw_value(member.kind, rng) for member in frame.members}
        value = {name: value.accepted for name, value in drawn.items()}
        if any(value[name] == other[name] for other in values for name in value):
            raise NoTaskDrawn("two items of one name")
        values.append(value)
        texts.append(" ".join(_member_texts(frame, drawn, rng)))
    return DrawnValue(values, enumerated(texts))


def _member_texts(
    frame: ParameterFrame, drawn: Mapping[str, DrawnValue], rng: random.Random
) -> list[str]:
    return [
        rng.choice(member.clauses).replace("{}", drawn[member.name].text)
        for member in frame.members
    ]


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


_USUAL = frozenset({"calculate", "compute", "estimate", "determine"})
_PERSON = re.compile(
    r"the (?:top scorer|ruler|director|head coach|author|architect|manager|judge|artist|champion"
    r"|winner|developer) "
)
_HEAD_END = re.compile(
    r" (?:of|for|in|on|to|with|between|from|by|over|at|per|through|under|after|around|during) "
)
_ONE = re.compile(
    r"(?<![\w.,-])(1|one) (people|calories|inches|successes|[a-z]{2,}(?<!s)s)(?![\w])(?! (?:of|is))"
)

ASKED_SHARE = 0.08  # of orders put as a polite question
WISHED_SHARE = 0.14  # of the others put as a wish


def request_for_call(call: MadeCall, rng: random.Random, *, question_share: float = 0.25) -> str:
    """Return one sentence that asks for a call."""
    return request_sentence(call, request_body(call, rng), rng, question_share=question_share)


def request_sentence(
    call: MadeCall, body: str, rng: random.Random, *, question_share: float
) -> str:
    """Return a body (a noun phrase with its clauses) as an order, a wish or a question."""
    mode = call.function.frame.mode
    is_question = rng.random() < question_share
    if is_question and mode in ("compute", "look") and rng.random() < 0.8:
        asked = "Who" if _PERSON.match(body) else "What"
        return f"{asked} {'are' if is_plural(body) else 'is'} {_bare(body)}?"
    if is_question and mode == "find" and rng.random() < 0.5:
        return f"Are there any {_bare(body)}?"
    if mode == "find" and rng.random() < 0.2:
        return rng.choice(function_phrases("wish_find")).format(_bare(body))
    ordered = request_as_order(call, body, rng)
    if is_question or rng.random() < ASKED_SHARE:
        return rng.choice(function_phrases("ask")).format(lower_first(ordered))
    if rng.random() < WISHED_SHARE:
        wish = rng.choice(function_phrases("wish"))
        if "need you" not in wish:
            ordered = _own(ordered, "Find out" if "Help me" in wish else "Know")
        return wish.format(lower_first(ordered))
    return f"{ordered}."


def request_body(call: MadeCall, rng: random.Random) -> str:
    """Return the noun phrase with all that is said of the arguments."""
    said = call.said()
    frame = call.function.frame
    texts = {name: each.value.text for name, each in said.items() if each.value is not None}
    phrase = fill_phrase(rng.choice(frame.phrases), texts)
    rest = [each for name, each in said.items() if name not in frame.slots]
    return correct_articles(_singular(phrase + argument_clauses(rest, rng)))


def argument_clauses(arguments: Sequence[MadeArgument], rng: random.Random) -> str:
    """Return the clauses of arguments, joined as one writes them, with a blank before each."""
    texts = [argument_clause(each, rng) for each in arguments]
    texts.sort(key=lambda text: text.startswith(","))  # what hangs behind a comma comes last
    said = ""
    for index, text in enumerate(texts):
        if text.startswith(","):
            said += text
        elif index and text.startswith("with ") and texts[index - 1].startswith("with "):
            goes_on = index + 1 < len(texts) and texts[index + 1].startswith("with ")
            said += f"{',' if goes_on else ' and'} {text.removeprefix('with ')}"
        else:  # never two numbers in a row
            said += f"{',' if said[-1:].isdigit() and text[0].isdigit() else ''} {text}"
    return said


def argument_clause(argument: MadeArgument, rng: random.Random) -> str:
    """Return how an argument is said; of a truth value the clause for true or for false."""
    assert argument.value is not None
    if argument.value.clause:
        return argument.value.clause
    pattern = rng.choice(argument.parameter.frame.clauses)
    if argument.parameter.frame.kind.name == "bool":
        true, _, false = pattern.partition(" ~ ")
        return true if argument.value.value else false
    return pattern.replace("{}", argument.value.text)


def _singular(text: str) -> str:
    """Return a text in which one of a thing is one thing: `1 guests` becomes `1 guest`."""
    return _ONE.sub(lambda found: f"{found[1]} {singular(found[2])}", text)


def request_as_order(call: MadeCall, body: str, rng: random.Random) -> str:
    """Return a body as an order, without a full stop: `Find me hotels in Porto`."""
    frame = call.function.frame
    if frame.mode == "act":
        verb = rng.choice(frame.verbs).replace("_", " ")
        return f"{verb[0].upper()}{verb[1:]} {_bare(body)}"
    orders = function_phrases(f"order_{frame.mode}")
    if frame.mode == "compute" and not _USUAL.intersection(frame.verbs):
        orders = tuple(verb.capitalize().replace("_", " ") for verb in frame.verbs)
    return f"{rng.choice(orders)} {_bare(body)}"


def is_plural(body: str) -> bool:
    """Whether a noun phrase is of several things: marked, or its first noun ends like one."""
    head = _HEAD_END.split(body)[0]
    is_many = head.endswith("s") and not head.endswith(("ss", "us", "is", " takes", " needs"))
    return body.startswith("are:") or is_many


def _bare(body: str) -> str:
    return body.removeprefix("are:")


def _own(order: str, told: str) -> str:
    """Return an order as a wish of one's own: nobody needs to show himself something."""
    for given, wished in (
        ("Tell me", told),
        ("Give me", "Get"),
        ("Show me", "See"),
        ("Find me", "Find"),
        ("Get me", "Get"),
    ):
        if order.startswith(given):
            return wished + order.removeprefix(given)
    return order
