"""Single-turn tasks with Java and JavaScript functions: values are literals of the language."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from functools import cache
from typing import Any

from fctncalling.lab.forge.forged_entry import SingleTurnTask
from fctncalling.lab.forge.single_turn.category_profiles import draw_number, read_word_lists
from fctncalling.lab.forge.single_turn.frames import FunctionTemplate, ParameterFrame, code_domains
from fctncalling.lab.forge.single_turn.made_calls import MadeArgument, argument_clauses
from fctncalling.lab.forge.single_turn.made_functions import MadeParameter, bfcl_doc
from fctncalling.lab.forge.single_turn.value_kinds import (
    DrawnValue,
    ValueKind,
    draw_value,
    enum_words,
)

LANGUAGES = ("simple_java", "simple_javascript")
_PARAMETERS = {
    "simple_java": {1: 0.03, 2: 0.61, 3: 0.26, 4: 0.1},
    "simple_javascript": {1: 0.04, 2: 0.38, 3: 0.42, 4: 0.16},
}
_DRAWN = {
    "simple_java": {"object": 7.0, "bool": 0.6, "ints": 9.0, "array": 3.0, "float": 0.5},
    "simple_javascript": {"object": 1.2, "bool": 0.2, "dict": 30.0, "array": 9.0, "ints": 9.0},
}
"""Category -> kind -> how much sooner than others a parameter of it is drawn."""

_SUFFIXES = (
    *("Manager", "Service", "Helper", "Utils", "Handler", "Controller", "Client", "Factory"),
    *("Processor", "Builder", "Registry", "Adapter"),
)
OF_CLASS_SHARE = 0.4  # of Java questions that name the class
PLACE_SHARE = 0.45  # of questions that say in which program
SETTING_SHARE = 0.06  # of questions that say why they are asked
PURPOSE_SHARE = 0.25
GENERIC_SHARE = 0.65  # of clauses that name the parameter
DESCRIBED_SHARE = 0.6  # of those that name it as its description does
_CLAUSES = ("whether", "how", "what", "where", "who")
REMARK_SHARES = {"simple_java": 0.5, "simple_javascript": 0.95}
MEANT_SHARE = 0.9  # of parameters whose description says more
OPTIONAL = 0.4  # of the optional parameters that stay optional in a JavaScript doc
WHOLE_SHARE = 0.7  # of whole numbers that JavaScript documents as floats
_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")


def code_task(category: str, rng: random.Random) -> SingleTurnTask:
    """Return a task of simple_java or simple_javascript."""
    domain, frame = rng.choice(_frames())
    count = draw_number(_PARAMETERS[category], rng)
    arguments = [_argument(each, category, rng) for each in _chosen(frame, count, category, rng)]
    verb = rng.choice(frame.verbs)
    owner = f"{domain}{rng.choice(_SUFFIXES)}" if category == "simple_java" else ""
    name = f"{owner}.{verb}{frame.noun}" if owner else f"{verb}{frame.noun}"
    return SingleTurnTask(
        _question(frame, verb, owner, arguments, rng),
        [_doc(frame, name, verb, arguments, category, rng)],
        [{name: {each.parameter.name: each.accepted for each in arguments}}],
        {"domain": domain, "frames": [frame.noun], "arguments": {"said": len(arguments)}},
    )


@cache
def _documented_types(category: str) -> dict[str, tuple[str, str | None]]:
    """Return kind -> documented type, and that of its items."""
    rows = (row.split() for row in read_word_lists("code_types")[category])
    return {kind: (written, items[-1] if items else None) for kind, written, *items in rows}


@cache
def _frames() -> tuple[tuple[str, FunctionTemplate], ...]:
    return tuple((domain.name, frame) for domain in code_domains() for frame in domain.frames)


def _phrase(name: str, rng: random.Random) -> str:
    return rng.choice(read_word_lists("code_phrases")[name])


def _chosen(
    frame: FunctionTemplate, count: int, category: str, rng: random.Random
) -> list[ParameterFrame]:
    """Return the first parameter and others, in the order of the frame.

    Java tasks have no dicts: the official parser loses the body of a literal HashMap.
    """
    first, *rest = frame.parameters
    if category == "simple_java":
        rest = [each for each in rest if not each.members]
    drawn = _DRAWN[category]
    rest.sort(key=lambda each: rng.random() ** drawn.get(each.kind.name, 1.0) + 0.4 * each.optional)
    picked = [first, *rest[: count - 1]]
    return sorted(picked, key=frame.parameters.index)


def _argument(parameter: ParameterFrame, category: str, rng: random.Random) -> MadeArgument:
    kind, is_javascript = parameter.kind, category == "simple_javascript"
    if is_javascript and kind.name == "int" and rng.random() < WHOLE_SHARE:
        kind = ValueKind("whole", kind.words, kind.args)
    stays = parameter.optional and is_javascript and rng.random() < OPTIONAL
    said = not stays or rng.random() < 0.7
    made = MadeParameter(parameter, rng.choice(parameter.names), not stays, kind)
    if not said:
        return MadeArgument(made, None)
    if parameter.members:
        return MadeArgument(made, _literal_object(parameter, rng))
    value = draw_value(kind, rng)
    plain = value.text if kind.name == "array" else value.text.strip("'\"")  # clauses have quotes
    return MadeArgument(made, value._replace(text=plain))


def _literal_object(parameter: ParameterFrame, rng: random.Random) -> DrawnValue:
    """Return an object of the drawn members, said as JavaScript writes it."""
    drawn = {member.name: draw_value(member.kind, rng) for member in parameter.members}
    texts = [f"{name}: {json.dumps(value.value)}" for name, value in drawn.items()]
    accepted = {name: value.accepted for name, value in drawn.items()}
    return DrawnValue(accepted, f"{{{', '.join(texts)}}}")


def _question(
    frame: FunctionTemplate,
    verb: str,
    owner: str,
    arguments: list[MadeArgument],
    rng: random.Random,
) -> str:
    said = [_reworded(each, frame, rng) for each in arguments if each.value is not None]
    wish = f"{verb} {rng.choice(frame.phrases)}{argument_clauses(said, rng)}"
    if rng.random() < PURPOSE_SHARE:
        wish += f" {_phrase('purpose', rng)}"
    of_class = owner and rng.random() < OF_CLASS_SHARE
    asked = _phrase("asked_of_class" if of_class else "asked", rng).format(wish, owner)
    drawn = rng.random()
    if drawn < PLACE_SHARE:
        place = f"{_phrase('place', rng)} {_phrase('circumstance', rng)}"
        return f"{place}, {asked[0].lower()}{asked[1:]}"
    if drawn < PLACE_SHARE + SETTING_SHARE:
        return f"{_phrase('setting', rng)}. {asked}"
    return asked


def _reworded(argument: MadeArgument, frame: FunctionTemplate, rng: random.Random) -> MadeArgument:
    """Return an argument said by its parameter's name ("with the line width set to 3")."""
    parameter = argument.parameter
    group = _GROUPS.get(parameter.kind.name)
    if group in (None, "list") or parameter.frame is frame.parameters[0]:
        return argument
    if rng.random() > GENERIC_SHARE:
        return argument
    described = parameter.frame.description
    if rng.random() < DESCRIBED_SHARE and not described.startswith(_CLAUSES):
        clause = _phrase(f"described_{group}", rng).format("{}", described)
    else:
        words = _WORD_START.sub(" ", parameter.name).lower()
        clause = _phrase(f"generic_{group}", rng).format("{}", words, parameter.name)
    return replace(
        argument,
        parameter=replace(parameter, frame=replace(parameter.frame, clauses=(f", {clause}",))),
    )


_GROUPS = {
    **dict.fromkeys(("int", "long", "whole", "float"), "number"),
    **dict.fromkeys(("string", "enum", "email"), "string"),
    **dict.fromkeys(("array", "ints", "floats"), "list"),
    "object": "object",
}
"""Kind -> which phrases speak of it."""


def _doc(
    frame: FunctionTemplate,
    name: str,
    verb: str,
    arguments: list[MadeArgument],
    category: str,
    rng: random.Random,
) -> dict[str, Any]:
    does = f"{verb}es" if verb.endswith(("ch", "sh", "s", "x")) else f"{verb}s"
    does = f"{verb[:-1]}ies" if verb.endswith(("ry", "fy")) else does
    opening = does.capitalize() if category == "simple_java" else f"This function {does}"
    text = f"{opening} {frame.phrases[0]} {frame.tail}."
    if rng.random() < REMARK_SHARES[category]:
        text += f" {_phrase('remark', rng)}"
    parameters = [each.parameter for each in arguments]
    properties = {each.name: _documented(each, category, rng) for each in parameters}
    return bfcl_doc(name, text, properties, parameters)


def _documented(parameter: MadeParameter, category: str, rng: random.Random) -> dict[str, Any]:
    kind: ValueKind = parameter.kind
    bfcl_type, items = _documented_types(category)[kind.name]
    text = parameter.frame.description
    group = _GROUPS.get(kind.name)
    if group and rng.random() < MEANT_SHARE:
        text += _phrase(f"meant_{group}", rng)
    described = f"{text.capitalize()}." if text.startswith("whether") else f"The {text}."
    if text.startswith("how"):
        described = f"{text[0].upper()}{text[1:]}."
    if kind.name == "enum":
        described += f" One of {', '.join(enum_words(kind))}."
    documented: dict[str, Any] = {"type": bfcl_type, "description": described}
    if items:
        documented["items"] = {"type": items}
    if parameter.frame.members:
        documented["properties"] = {
            member.name: _documented(
                MadeParameter(member, member.name, True, member.kind), category, rng
            )
            for member in parameter.frame.members
        }
    if not parameter.required:
        documented["description"] += " Optional parameter."
    return documented
