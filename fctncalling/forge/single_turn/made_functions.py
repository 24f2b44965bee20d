"""Functions drawn from frames: a name, a description and some parameters of the pool."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fctncalling.forge.single_turn.frames import (
    FunctionFrame,
    ParameterFrame,
    common_parameters,
    default_value,
)
from fctncalling.forge.single_turn.value_kinds import enum_words

Doc = dict[str, Any]
OPTIONAL_SHARE = 0.42  # of a frame's required parameters that a doc may turn into optional ones
_DESCRIBED = {
    "compute": ("Calculate", "Calculates", "Compute", "Determine", "Calculate", "Estimate"),
    "look": ("Get", "Retrieve", "Fetch", "Look up", "Returns", "Retrieve"),
    "find": ("Find", "Search for", "List", "Retrieve", "Find", "Look for"),
}


@dataclass(frozen=True)
class MadeParameter:
    """A parameter as one function documents it."""

    frame: ParameterFrame
    name: str
    required: bool
    default: Any = None  # None: the doc speaks of none


@dataclass(frozen=True)
class MadeFunction:
    """A function of a frame."""

    frame: FunctionFrame
    name: str
    parameters: tuple[MadeParameter, ...]
    doc: Doc


def make_function(
    frame: FunctionFrame, num_parameters: int, dotted_share: float, rng: random.Random
) -> MadeFunction:
    """Return a function of a frame, with so many parameters or as near as its pool allows."""
    chosen = _chosen(frame, num_parameters, rng)
    parameters = tuple(_made(parameter, frame, rng) for parameter in chosen)
    name = _name(frame, dotted_share, rng)
    return MadeFunction(frame, name, parameters, _doc(frame, name, parameters, rng))


def _chosen(frame: FunctionFrame, count: int, rng: random.Random) -> list[ParameterFrame]:
    """Return parameters of the pool in its order: those in the noun phrase, then others."""
    must = [each for each in frame.parameters if each.name in frame.slots]
    must = must or list(frame.parameters[:1])
    rest = [each for each in frame.parameters if each not in must]
    optional = [each for each in rest if each.optional]
    needed = [each for each in rest if not each.optional]
    if frame.mode == "compute":  # a formula needs all its quantities
        must, needed = must + needed, []
    known = {name for each in frame.parameters for name in each.names}
    common = [each for each in common_parameters(frame.mode) if each.name not in known]
    picked = list(must)
    pools = [needed, optional, common] if rng.random() < 0.7 else [optional, needed, common]
    for pool in pools:
        rng.shuffle(pool)
        picked += pool[: max(0, count - len(picked))]
    order = [*frame.parameters, *common]
    return sorted(picked, key=order.index)


def _made(parameter: ParameterFrame, frame: FunctionFrame, rng: random.Random) -> MadeParameter:
    name = rng.choice(parameter.names)
    if parameter.optional:
        return MadeParameter(parameter, name, False, default_value(parameter))
    may_turn = frame.mode != "compute" and parameter.name not in frame.slots
    turned = may_turn and parameter is not frame.parameters[0] and rng.random() < OPTIONAL_SHARE
    return MadeParameter(parameter, name, not turned)


def _name(frame: FunctionFrame, dotted_share: float, rng: random.Random) -> str:
    verb = rng.choice(frame.verbs)
    plain = f"{verb}_{frame.noun}"
    if rng.random() < dotted_share:
        domain = frame.domain
        return rng.choice(
            [f"{domain}.{plain}", f"{frame.noun}.{verb}", f"{domain}.{frame.noun}_{verb}"]
        )
    kind = rng.random()
    if kind < 0.06:
        first, *others = plain.split("_")
        return first + "".join(word.capitalize() for word in others)
    return plain if kind < 0.9 else f"{frame.noun}_{verb}"


def _doc(
    frame: FunctionFrame, name: str, parameters: Sequence[MadeParameter], rng: random.Random
) -> Doc:
    verbs = _DESCRIBED.get(frame.mode) or tuple(verb.replace("_", " ") for verb in frame.verbs)
    verb = rng.choice(verbs)
    text = f"{verb[0].upper()}{verb[1:]} {frame.generic()} {frame.tail}".strip()
    return {
        "name": name,
        "description": text + ".",
        "parameters": {
            "type": "dict",
            "properties": {each.name: _documented(each, rng) for each in parameters},
            "required": [each.name for each in parameters if each.required],
        },
    }


def _documented(parameter: MadeParameter, rng: random.Random) -> Doc:
    frame, kind = parameter.frame, parameter.frame.kind
    documented: Doc = {"type": kind.bfcl_type, "description": _description(parameter, rng)}
    if kind.item_type:
        documented["items"] = {"type": kind.item_type}
    if kind.name == "enum" and (rng.random() < 0.6 or parameter.default is None):
        documented["enum"] = list(enum_words(kind))
    if frame.members:
        documented["properties"] = {
            member.name: _documented(MadeParameter(member, member.name, True), rng)
            for member in frame.members
        }
        documented["required"] = [member.name for member in frame.members]
    if parameter.default is not None and rng.random() < 0.25:
        documented["default"] = parameter.default
    return documented


def _description(parameter: MadeParameter, rng: random.Random) -> str:
    text = parameter.frame.description
    text = rng.choice([f"The {text}", f"The {text}", f"{text[0].upper()}{text[1:]}"]) + "."
    kind = parameter.frame.kind
    if kind.name == "enum" and rng.random() < 0.5:
        text += f" One of {', '.join(repr(word) for word in enum_words(kind))}."
    if parameter.required:
        return text
    if parameter.default is None:
        return rng.choice([f"{text} Optional.", f"(Optional) {text}", f"{text} This is optional."])
    shown = repr(parameter.default) if isinstance(parameter.default, str) else parameter.default
    return text + rng.choice(
        [f" Default is {shown}.", f" Defaults to {shown}.", f" Optional, default is {shown}."]
    )
