"""Single-turn tasks with Java and JavaScript functions: values are literals of the language."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from fctncalling.forge.single_turn.category_profiles import draw_number
from fctncalling.forge.single_turn.forged_task import SingleTurnTask
from fctncalling.forge.single_turn.frames import FunctionFrame, ParameterFrame, code_domains
from fctncalling.forge.single_turn.made_calls import MadeArgument
from fctncalling.forge.single_turn.made_functions import MadeParameter
from fctncalling.forge.single_turn.requests import clauses
from fctncalling.forge.single_turn.value_kinds import ValueKind, draw_value

LANGUAGES = ("simple_java", "simple_javascript")
_TYPES: Mapping[str, Mapping[str, tuple[str, str | None]]] = {
    "simple_java": {
        "object": ("any", None),
        "string": ("String", None),
        "int": ("integer", None),
        "long": ("long", None),
        "float": ("double", None),
        "bool": ("boolean", None),
        "array": ("ArrayList", "String"),
        "ints": ("Array", "integer"),
        "email": ("String", None),
    },
    "simple_javascript": {
        "object": ("any", None),
        "string": ("String", None),
        "int": ("integer", None),
        "long": ("integer", None),
        "float": ("float", None),
        "bool": ("Boolean", None),
        "array": ("array", "String"),
        "ints": ("array", "integer"),
        "email": ("String", None),
    },
}
"""Category -> kind -> documented type, and that of its items."""

_PARAMETERS = {
    "simple_java": {1: 0.03, 2: 0.57, 3: 0.27, 4: 0.13},
    "simple_javascript": {1: 0.04, 2: 0.38, 3: 0.42, 4: 0.16},
}
_SUFFIXES = ("Manager", "Service", "Helper", "Utils", "Handler", "Controller", "Client", "Factory")
_ASKED = (
    "How can I {}?",
    "How do I {}?",
    "How would I {}?",
    "What is the call to {}?",
    "Can you show me how to {}?",
    "Which call do I need to {}?",
)
_ASKED_OF_CLASS = (
    "How can I use the {1} class to {0}?",
    "How do I {0} with the help of `{1}`?",
    "Using {1} in Java, how can I {0}?",
)
_REMARKS = (
    "It returns nothing, but throws an error when an argument is not valid.",
    "The function may be called from several places at the same time.",
    "An object that tells how it went is returned to the caller.",
    "It is part of the internal interface and used by several modules.",
)
_SETTINGS = (
    "In an application that serves several hundred users at once,",
    "While moving an older module to a new version,",
    "For a small tool that runs every night,",
    "In the part of the program that I took over last week,",
    "Within a service that has to start again without losing anything,",
    "As part of a test that is run before each release,",
    "In a project where several teams share the same code,",
    "When a request comes in from another service,",
    "After the program has read its settings,",
    "For a feature that our customers have been waiting for,",
    "Before the next release goes out to our customers,",
    "While I clean up code that nobody has touched for years,",
    "In a script that only the administrators may run,",
    "To make an old tool work on the new machines,",
    "For the first version of a small web shop,",
    "In the module that talks to the warehouse,",
    "When the user presses the button for the second time,",
    "As soon as the connection is up again,",
    "On a machine with very little memory,",
    "In the code that my colleague reviewed this morning,",
    "For a class exercise on clean interfaces,",
    "During the start of a program with many plugins,",
    "To find out why a test fails now and then,",
)
_PURPOSES = (
    "so that the next step can rely on it",
    "before the rest of the program goes on",
    "such that other modules see the change",
    "and keep the code as short as possible",
    "without changing anything else",
    "as early in the program as possible",
    "in a way that a beginner can follow",
    "and leave the old behavior as it is",
    "while other users are at work",
)
SETTING_SHARE = 0.75
PURPOSE_SHARE = 0.5
MEANT_SHARE = 0.6  # of parameters whose description says more
_MEANT = (
    ", as it is known to the caller",
    ", which must not be null",
    ", as the surrounding code prepares it",
    ", checked before anything else is done",
)
OPTIONAL = 0.3  # of the optional parameters that stay optional in a JavaScript doc


def code_task(category: str, rng: random.Random) -> SingleTurnTask:
    """Return a task of simple_java or simple_javascript."""
    domain = rng.choice(code_domains())
    frame = rng.choice(domain.frames)
    count = draw_number(_PARAMETERS[category], rng)
    arguments = [_argument(each, category, rng) for each in _chosen(frame, count, rng)]
    verb = rng.choice(frame.verbs)
    owner = f"{domain.name}{rng.choice(_SUFFIXES)}"
    name = f"{owner}.{verb}{frame.noun}" if category == "simple_java" else f"{verb}{frame.noun}"
    return SingleTurnTask(
        _question(frame, verb, owner if category == "simple_java" else "", arguments, rng),
        [_doc(frame, name, verb, arguments, category, rng)],
        [{name: {each.parameter.name: each.accepted for each in arguments}}],
        {"domain": domain.name, "frames": [frame.noun], "arguments": {"said": len(arguments)}},
    )


def _chosen(frame: FunctionFrame, count: int, rng: random.Random) -> list[ParameterFrame]:
    first, *rest = frame.parameters
    rest.sort(key=lambda each: rng.random() ** (4.0 if each.kind.name == "object" else 1.0))
    picked = [first, *rest[: count - 1]]
    return sorted(picked, key=frame.parameters.index)


def _argument(parameter: ParameterFrame, category: str, rng: random.Random) -> MadeArgument:
    kind = parameter.kind
    stays = parameter.optional and category == "simple_javascript" and rng.random() < OPTIONAL
    said = not stays or rng.random() < 0.7
    made = MadeParameter(parameter, rng.choice(parameter.names), not stays, kind)
    if not said:
        return MadeArgument(made, None)
    value = draw_value(kind, rng)
    plain = value.text if kind.name == "array" else value.text.strip("'\"")  # clauses have quotes
    return MadeArgument(made, value._replace(text=plain))


def _question(
    frame: FunctionFrame, verb: str, owner: str, arguments: list[MadeArgument], rng: random.Random
) -> str:
    said = clauses([each for each in arguments if each.value is not None], rng)
    wish = f"{verb} {rng.choice(frame.phrases)}{said}"
    if rng.random() < PURPOSE_SHARE:
        wish += f" {rng.choice(_PURPOSES)}"
    asked = _asked(wish, owner, rng)
    if rng.random() < SETTING_SHARE:
        return f"{rng.choice(_SETTINGS)} {asked[0].lower()}{asked[1:]}"
    return asked


def _asked(wish: str, owner: str, rng: random.Random) -> str:
    if owner and rng.random() < 0.5:
        return rng.choice(_ASKED_OF_CLASS).format(wish, owner)
    return rng.choice(_ASKED).format(wish)


def _doc(
    frame: FunctionFrame,
    name: str,
    verb: str,
    arguments: list[MadeArgument],
    category: str,
    rng: random.Random,
) -> dict[str, Any]:
    does = f"{verb}es" if verb.endswith(("ch", "sh", "s", "x")) else f"{verb}s"
    does = f"{verb[:-1]}ies" if verb.endswith("y") else does
    opening = does.capitalize() if category == "simple_java" else f"This function {does}"
    text = f"{opening} {frame.phrases[0]} {frame.tail}."
    if rng.random() < (0.25 if category == "simple_java" else 0.55):
        text += f" {rng.choice(_REMARKS)}"
    return {
        "name": name,
        "description": text,
        "parameters": {
            "type": "dict",
            "properties": {
                each.parameter.name: _documented(each.parameter, category, rng)
                for each in arguments
            },
            "required": [each.parameter.name for each in arguments if each.parameter.required],
        },
    }


def _documented(parameter: MadeParameter, category: str, rng: random.Random) -> dict[str, Any]:
    kind: ValueKind = parameter.kind
    bfcl_type, items = _TYPES[category][kind.name]
    text = parameter.frame.description
    if rng.random() < MEANT_SHARE:
        text += rng.choice(_MEANT)
    described = f"{text.capitalize()}." if text.startswith("whether") else f"The {text}."
    documented: dict[str, Any] = {"type": bfcl_type, "description": described}
    if items:
        documented["items"] = {"type": items}
    if not parameter.required:
        documented["description"] += " Optional parameter."
    return documented
