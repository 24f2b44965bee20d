"""Functions drawn from frames: a name, a description and some parameters of the pool."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

from fctncalling.lab.forge.single_turn.category_profiles import CategoryProfile, read_word_lists
from fctncalling.lab.forge.single_turn.frames import (
    FunctionTemplate,
    ParameterFrame,
    common_optional_parameters,
    default_value,
)
from fctncalling.lab.forge.single_turn.value_kinds import ValueKind, enum_words

Doc = dict[str, Any]
FREE_FORMAT_SHARE = 0.45  # of dates and times whose doc asks for no format
_FORMAT = re.compile(r" in (?:the|24-hour) format [A-Z:-]+")
KIND_WEIGHTS = {"bool": 0.4, "dict": 6.0, "array": 5.0, "ints": 5.0}  # above 1: drawn sooner
REMARK_SHARE = 0.22  # of functions whose description has a second sentence
MEANT_SHARE = 0.5  # of the parameters' descriptions
_MEANT_ALREADY = re.compile(r",| as | in the format |decimal|whole number")


def function_phrases(name: str) -> tuple[str, ...]:
    """Return a list of the table of phrases; none of a mode or kind that has none of its own."""
    return read_word_lists("function_phrases").get(name, ())


@dataclass(frozen=True)
class MadeParameter:
    """A parameter as one function documents it."""

    frame: ParameterFrame
    name: str
    required: bool
    kind: ValueKind
    default: Any = None  # None: the doc speaks of none, unless it is nullable
    nullable: bool = False  # whether the doc says that null is the default
    group: str = ""  # the dict it stands in


@dataclass(frozen=True)
class MadeFunction:
    """A function of a frame."""

    frame: FunctionTemplate
    name: str
    parameters: tuple[MadeParameter, ...]
    doc: Doc


def make_function(
    frame: FunctionTemplate, num_parameters: int, profile: CategoryProfile, rng: random.Random
) -> MadeFunction:
    """Return a function of a frame, with so many parameters or as near as its pool allows."""
    chosen = _chosen(frame, num_parameters, profile.common_share, rng)
    as_floats = rng.random() < profile.float_share
    parameters = tuple(_made(each, frame, as_floats, profile, rng) for each in chosen)
    name = _name(frame, profile.dotted_share, rng)
    return MadeFunction(
        frame, name, parameters, document_function(frame, name, parameters, profile, rng)
    )


def _chosen(
    frame: FunctionTemplate, count: int, common_share: float, rng: random.Random
) -> list[ParameterFrame]:
    """Return parameters of the pool in its order: those in the noun phrase, then others."""
    must = [each for each in frame.parameters if each.name in frame.slots]
    must = must or list(frame.parameters[:1])
    rest = [each for each in frame.parameters if each not in must]
    optional = [each for each in rest if each.optional]
    needed = [each for each in rest if not each.optional]
    if frame.mode == "compute":  # a formula needs all its quantities
        must, needed = must + needed, []
    known = {name for each in frame.parameters for name in each.names}
    common = [each for each in common_optional_parameters(frame) if each.name not in known]
    if rng.random() > common_share:
        common = []
    picked = list(must)
    pools = [needed, optional, common] if rng.random() < 0.8 else [optional, needed, common]
    for pool in pools:
        pool.sort(key=lambda each: rng.random() ** KIND_WEIGHTS.get(each.kind.name, 1.0))
        picked += pool[: max(0, count - len(picked))]
    order = [*frame.parameters, *common]
    return sorted(picked, key=order.index)


def _made(
    parameter: ParameterFrame,
    frame: FunctionTemplate,
    as_floats: bool,
    profile: CategoryProfile,
    rng: random.Random,
) -> MadeParameter:
    name = rng.choice(parameter.names)
    kind = parameter.kind
    if kind.name in ("date", "time") and not kind.words and rng.random() < FREE_FORMAT_SHARE:
        kind = ValueKind(kind.name, "free")
    if parameter.optional and rng.random() > profile.required_share:
        return MadeParameter(parameter, name, False, kind, default_value(parameter))
    may_turn = frame.mode != "compute" and parameter.name not in frame.slots
    turned = (
        may_turn and parameter is not frame.parameters[0] and rng.random() < profile.optional_share
    )
    if kind.name == "int" and as_floats and frame.mode == "compute":
        kind = ValueKind("whole", kind.words, kind.args)
    return MadeParameter(parameter, name, not turned, kind)


def _name(frame: FunctionTemplate, dotted_share: float, rng: random.Random) -> str:
    verb = rng.choice(frame.verbs)
    plain = f"{verb}_{frame.noun}"
    if rng.random() < dotted_share:
        domain = frame.domain
        dotted = [f"{domain}.{plain}", f"{domain}.{frame.noun}_{verb}"]
        return rng.choice(dotted if iskeyword(verb) else [*dotted, f"{frame.noun}.{verb}"])
    kind = rng.random()
    if kind < 0.06:
        first, *others = plain.split("_")
        return first + "".join(word.capitalize() for word in others)
    return plain if kind < 0.9 else f"{frame.noun}_{verb}"


def document_function(
    frame: FunctionTemplate,
    name: str,
    parameters: Sequence[MadeParameter],
    profile: CategoryProfile,
    rng: random.Random,
) -> Doc:
    """Return a function doc in BFCL's form, its wording drawn."""
    plain = tuple(verb.replace("_", " ") for verb in frame.verbs)
    verbs = function_phrases(f"described_{frame.mode}") or plain
    verb = rng.choice(verbs)
    text = f"{verb[0].upper()}{verb[1:]} {frame.generic()} {frame.tail}".strip() + "."
    if rng.random() < REMARK_SHARE:
        text += f" {rng.choice(function_phrases(f'remark_{frame.mode}'))}"
    properties = {each.name: _documented(each, profile, rng) for each in parameters}
    return bfcl_doc(name, text, properties, parameters)


def bfcl_doc(
    name: str, text: str, properties: dict[str, Doc], parameters: Sequence[MadeParameter]
) -> Doc:
    """Return a function doc in BFCL's form."""
    required = [each.name for each in parameters if each.required]
    schema = {"type": "dict", "properties": properties, "required": required}
    return {"name": name, "description": text, "parameters": schema}


def _documented(parameter: MadeParameter, profile: CategoryProfile, rng: random.Random) -> Doc:
    frame, kind = parameter.frame, parameter.kind
    described = kind.name == "enum" and rng.random() >= profile.enum_share
    text = _description(parameter, described, rng)
    documented: Doc = {"type": kind.bfcl_type, "description": text}
    if kind.item_type:
        documented["items"] = {"type": kind.item_type}
    if kind.name == "enum" and not described:
        documented["enum"] = list(enum_words(kind))
    if frame.members:
        documented_members: Doc = documented if kind.name == "dict" else documented["items"]
        documented_members["properties"] = {
            member.name: _documented(
                MadeParameter(member, member.name, True, member.kind), profile, rng
            )
            for member in frame.members
        }
        documented_members["required"] = [member.name for member in frame.members]
    if parameter.default is not None and rng.random() < profile.default_share:
        documented["default"] = parameter.default
    return documented


def _description(parameter: MadeParameter, lists_choices: bool, rng: random.Random) -> str:
    text = parameter.frame.description
    if parameter.kind.words == "free":
        text = _FORMAT.sub("", text)
    plain = f"{text[0].upper()}{text[1:]}"
    is_clause = text.startswith(("how ", "what "))
    text = plain if is_clause else rng.choice([f"The {text}", f"The {text}", plain])
    meant = function_phrases(f"meant_{parameter.kind.name}")
    if meant and rng.random() < MEANT_SHARE and not _MEANT_ALREADY.search(text):
        added = rng.choice(meant)
        text += added if added.startswith(",") else f" {added}"
    text += "."
    if lists_choices:
        words = ", ".join(repr(word) for word in enum_words(parameter.kind))
        text += rng.choice([f" One of {words}.", f" Can be {words}.", f" Options: {words}."])
    if parameter.required:
        return text
    if parameter.default is None:
        return rng.choice([f"{text} Optional.", f"(Optional) {text}", f"{text} This is optional."])
    shown = repr(parameter.default) if isinstance(parameter.default, str) else parameter.default
    return text + rng.choice(
        [f" Default is {shown}.", f" Defaults to {shown}.", f" Optional, default is {shown}."]
    )
