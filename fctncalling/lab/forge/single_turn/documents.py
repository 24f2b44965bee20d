"""Functions of the single-turn library, and the documents in which tasks offer them."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.data.types import FunctionDoc
from fctncalling.lab.forge.own_api.drawn_call import AskableApi, DrawnCall
from fctncalling.lab.forge.own_api.offers import FunctionOffers
from fctncalling.lab.own_api.kinds import MISSING, ArgumentKind
from fctncalling.lab.own_api.kinds.evidence import infer_argument_kind
from fctncalling.lab.own_api.words.frames import (
    RequestFrame,
    clauses_of_frames,
    frames_of_tables,
    split_held_out_frames,
)
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.request_fit import RequestFit
from fctncalling.specification.api import OwnApi

FOLDER = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class FunctionTemplate:
    """Function with its whole pool of parameters, of which a task's document has some.

    `family` and `aspect`: of functions that tell different things of one sort of thing.
    """

    words: FunctionWords
    frames: Sequence[RequestFrame]
    domain: str
    mode: str  # compute, look, find, act or code
    verbs: tuple[str, ...]
    noun: str
    family: str
    aspect: str
    common: frozenset[str]  # options that many functions have
    about: str  # what it deals with, as questions name it; "" for what cannot be named

    @property
    def schemas(self) -> Mapping[str, Any]:
        """The schemas of its parameters."""
        properties: Mapping[str, Any] = self.words.doc.parameters["properties"]
        return properties

    @property
    def slots(self) -> frozenset[str]:
        """The parameters that every request says within its phrase."""
        return frozenset.intersection(*(frozenset(frame.parameters) for frame in self.frames))


def _expanded(rows: Iterator[Mapping[str, Any]], phrases: Mapping[str, Any]) -> Iterator[Any]:
    """Yield (row, phrase table) of each function: of a row with aspects, one for each of them."""
    for row in rows:
        text = json.dumps([row, phrases[row["name"]]])
        for aspect, (ask, words) in row.get("aspects", {"": ("", "")}).items():
            told = text.replace("<ask>", ask).replace("<aspect>", words).replace("*", aspect)
            family = row["noun"] if aspect else ""
            yield *json.loads(told), {"family": family, "aspect": aspect}


@cache
def templates() -> tuple[FunctionTemplate, ...]:
    """Return the functions of the library, those of one domain together."""
    lines = (FOLDER / "functions.jsonl").read_text(encoding="utf-8").splitlines()
    phrases = tomllib.loads((FOLDER / "phrases.toml").read_text(encoding="utf-8"))
    shared, *rows = map(json.loads, lines)
    expanded = list(_expanded(iter(rows), phrases))
    for row, _, _ in expanded:
        properties = row["parameters"]["properties"]
        properties |= {n: shared[e["$ref"]] for n, e in properties.items() if "$ref" in e}
    tables = {"*": phrases["*"], **{row["name"]: table for row, table, _ in expanded}}
    parameters = {row["name"]: row["parameters"]["properties"] for row, _, _ in expanded}
    frames = frames_of_tables(tables, parameters, "phrases.toml")
    return tuple(_template(row, frames[row["name"]], more) for row, _, more in expanded)


def _template(
    row: Mapping[str, Any], frames: Sequence[RequestFrame], more: Mapping[str, str]
) -> FunctionTemplate:
    doc = FunctionDoc(row["name"], row["description"], row["parameters"])
    needed = row["parameters"]["required"]
    kinds = {
        name: infer_argument_kind(name, schema, required=name in needed)
        for name, schema in row["parameters"]["properties"].items()
    }
    words = FunctionWords(doc, kinds, clauses=clauses_of_frames(frames))
    phrases = split_held_out_frames([frame for frame in frames if not frame.says])[0]
    return FunctionTemplate(
        words,
        phrases,
        row["domain"],
        row["mode"],
        tuple(row["verbs"]),
        row["noun"],
        **more,
        common=frozenset(row.get("common", ())),
        about=row.get("about", ""),
    )


@cache
def domains(*, code: bool = False) -> Mapping[str, Sequence[FunctionTemplate]]:
    """Return the functions of each domain; `code`: those of Java and JavaScript in their place."""
    found: dict[str, list[FunctionTemplate]] = {}
    for each in templates():
        if (each.mode == "code") is code:
            found.setdefault(each.domain, []).append(each)
    return found


@cache
def part_of_function(
    template: FunctionTemplate, required: tuple[tuple[str, bool], ...], *, floats: bool
) -> FunctionWords:
    """Return a function with some of its parameters, each required or not.

    `floats`: whether whole numbers are documented as floats.
    """
    kinds = {name: template.words.kinds[name] for name, _ in required}
    for name, is_required in required:
        default = MISSING if is_required else kinds[name].default
        kinds[name] = replace(kinds[name], required=is_required, default=default)
        if floats and kinds[name].kind == "integer":
            kinds[name] = replace(
                kinds[name], type="float", kind="number", step=kinds[name].step or 1
            )
    return FunctionWords(template.words.doc, kinds, clauses=template.words.clauses)


def askable(functions: Sequence[FunctionWords]) -> AskableApi:
    """Return the API that some functions are."""
    return replace(_library(), words={each.doc.name: each for each in functions})


@cache
def _library() -> AskableApi:
    frames = {each.words.doc.name: each.frames for each in templates()}
    api = OwnApi("single turn", (), "")
    return AskableApi(api, {}, frames, {}, FunctionOffers(api, 1), {}, {}, RequestFit(()), False)


Doc = dict[str, Any]
Shares = Mapping[int, float]
"""Number -> share of tasks (or of functions) that have so many."""
GROUPED_SHARE = 0.08  # of services' functions whose other parameters stand in a dict
NOTED_SHARE = 0.6  # of their required parameters with a second sentence
_SHOWN = ("place", "free_text", "date", "time", "integer", "number")  # kinds with examples


@dataclass(frozen=True)
class CategoryProfile:
    """The shape of one category's tasks, as BFCL's own have it."""

    functions: Shares
    parameters: Shares
    calls: Shares = field(default_factory=lambda: {1: 1.0})
    dotted_share: float = 0.4  # of function names with a dot
    float_share: float = 0.1  # of functions that document whole numbers as floats
    default_share: float = 0.4  # of defaults that stand in `default` and not only in words
    enum_share: float = 0.28  # of enumerations that stand in `enum`, not in the description
    common_share: float = 0.06  # of functions with options that many functions have
    optional_share: float = 0.1  # of required parameters that may turn optional
    required_share: float = 0.22  # of optional parameters that are required all the same
    remark_share: float = 0.22  # of functions whose description has a second sentence
    long: bool = False  # whether parameters have examples and notes, as services write them
    class_names: tuple[str, ...] = ()  # endings of the classes that functions belong to
    types: Mapping[str, str] = field(default_factory=dict)  # of a language but Python's


@cache
def profiles() -> Mapping[str, CategoryProfile]:
    """Return the profile of each category."""
    rows = tomllib.loads((FOLDER / "profiles.toml").read_text(encoding="utf-8"))
    found = {}
    for name, row in rows.items():
        whole = {**rows.get(row.pop("like", ""), {}), **row}
        for counted in ("functions", "parameters", "calls"):
            if counted in whole:
                whole[counted] = {int(number): share for number, share in whole[counted].items()}
        found[name] = CategoryProfile(**whole)
    return found


@cache
def texts() -> Mapping[str, Any]:
    """Return sentences of documents, and questions that no function answers, by their use."""
    return tomllib.loads((FOLDER / "texts.toml").read_text(encoding="utf-8"))


def draw_number(shares: Shares, rng: random.Random) -> int:
    """Return a number with the probability its share gives it."""
    return rng.choices(list(shares), weights=list(shares.values()))[0]


class OfferedFunction(NamedTuple):
    """Function as a task offers it, under names that may be others than its template's."""

    template: FunctionTemplate
    words: FunctionWords
    name: str
    names: Mapping[str, str]  # the template's parameter -> its name in the document; "GROUP.NAME"
    doc: Doc

    def truth(self, call: DrawnCall) -> dict[str, dict[str, Any]]:
        """Return what is accepted of a call, by the names of the document."""
        documented = self.doc["parameters"]["properties"]
        accepted: dict[str, Any] = {}
        groups: dict[str, dict[str, Any]] = {}
        for name, path in self.names.items():
            group, _, own = path.rpartition(".")
            schema = (documented[group]["properties"] if group else documented)[own]
            default = [schema["default"]] if "default" in schema else []
            into = groups.setdefault(group, {}) if group else accepted
            into[own] = call.truth.get(name) or ["", *default]
        for group, members in groups.items():
            may_go = all("" in values for values in members.values())
            accepted[group] = [members, ""] if may_go else [members]
        return {self.name: accepted}


def draw_function(
    template: FunctionTemplate, profile: CategoryProfile, rng: random.Random
) -> OfferedFunction:
    """Return a function with as many parameters as the profile draws, or near it."""
    required = _drawn_parameters(template, draw_number(profile.parameters, rng), profile, rng)
    floats = template.mode in ("compute", "code") and rng.random() < profile.float_share
    words = part_of_function(template, required, floats=floats)
    taken: dict[str, str] = {}
    for name in words.kinds:
        own = rng.choice((name, *template.schemas[name].get("x-also", ())))
        taken[name] = name if own in taken.values() or own in template.schemas else own
    nested = {each for each, kind in words.kinds.items() if (kind.item or kind).properties}
    loose = [name for name in taken if name not in template.slots | nested]
    if profile.long and len(loose) > 1 and rng.random() < GROUPED_SHARE:
        group = rng.choice([each for each in texts()["groups"] if each not in template.schemas])
        taken |= {each: f"{group}.{taken[each]}" for each in loose}
    name = _function_name(template, profile, rng)
    return OfferedFunction(
        template, words, name, taken, function_document(template, words, name, taken, profile, rng)
    )


def _drawn_parameters(
    template: FunctionTemplate, count: int, profile: CategoryProfile, rng: random.Random
) -> tuple[tuple[str, bool], ...]:
    """Return parameters of the pool and whether they are required: those that phrases say first."""
    kinds, slots = template.words.kinds, template.slots
    needed = [name for name, kind in kinds.items() if kind.required]
    must = {*(slots or needed[:1] or [*kinds][:1])}
    must |= {*needed} if template.mode == "compute" else set()  # a formula needs all its quantities
    sooner = rng.random() < 0.8
    left_out = must if rng.random() < profile.common_share else must | template.common
    rest = [name for name in kinds if name not in left_out]
    if profile.class_names:  # of Java: the official parser loses the body of a literal HashMap
        rest = [name for name in rest if not kinds[name].properties]
    rest.sort(key=lambda name: (kinds[name].required is not sooner, rng.random()))
    must_be = {*must}
    must |= {*rest[: max(0, count - len(must))]}

    def is_required(name: str) -> bool:
        if name in must_be:
            return True
        share = 1 - profile.optional_share if kinds[name].required else profile.required_share
        return rng.random() < share

    return tuple((name, is_required(name)) for name in kinds if name in must)


def _function_name(template: FunctionTemplate, profile: CategoryProfile, rng: random.Random) -> str:
    verb, noun = rng.choice(template.verbs), template.noun
    if template.mode == "code":
        owner = (
            f"{template.domain}{rng.choice(profile.class_names)}." if profile.class_names else ""
        )
        return f"{owner}{verb}{noun}"
    plain = f"{verb}_{noun}"
    if rng.random() < profile.dotted_share:
        dotted = [f"{template.domain}.{plain}", f"{template.domain}.{noun}_{verb}"]
        return rng.choice(dotted if iskeyword(verb) else [*dotted, f"{noun}.{verb}"])
    first, *others = plain.split("_")
    camel = first + "".join(word.capitalize() for word in others)
    return rng.choices((plain, f"{noun}_{verb}", camel), weights=(84, 10, 6))[0]


def function_document(
    template: FunctionTemplate,
    words: FunctionWords,
    name: str,
    names: Mapping[str, str],
    profile: CategoryProfile,
    rng: random.Random,
) -> Doc:
    """Return a function's document in BFCL's form, its wording drawn."""
    text = words.doc.description
    if rng.random() < profile.remark_share:
        remarks = texts()["long_remarks" if profile.long else "remarks"][template.mode]
        text = f"{text} {rng.choice(remarks)}"
    schema: Doc = {"type": "dict", "properties": {}, "required": []}
    for each, kind in words.kinds.items():
        group, _, own = names[each].rpartition(".")
        into = schema
        if group:
            described = f"Further {group} of the request as a dictionary."
            empty = {"type": "dict", "description": described, "properties": {}, "required": []}
            into = schema["properties"].setdefault(group, empty)
        into["properties"][own] = _parameter_document(template.schemas[each], kind, profile, rng)
        into["required"] += [own] if kind.required else []
        if group and into["required"] and group not in schema["required"]:
            schema["required"].append(group)
    return {"name": name, "description": text, "parameters": schema}


def _parameter_document(
    schema: Mapping[str, Any], kind: ArgumentKind, profile: CategoryProfile, rng: random.Random
) -> Doc:
    text = schema["description"]
    document = _typed(schema, kind, profile)
    if kind.kind == "enum" and "x-hidden" not in schema:
        if rng.random() < profile.enum_share:
            document["enum"] = list(kind.values)
        else:
            text += (
                f" {rng.choice(('One of', 'Can be', 'Options:'))} {str(list(kind.values))[1:-1]}."
            )
    if profile.long and kind.kind in _SHOWN:
        drawn = dict.fromkeys(repr(kind.draw(rng)) for _ in range(2))
        text = f"{text.rstrip('.')}, such as {' or '.join(drawn)}."
    if profile.long and kind.required and rng.random() < NOTED_SHARE:
        text += f" {rng.choice(texts()['notes'])}"
    if not kind.required:
        if kind.default is MISSING and profile.long:
            document["default"] = None
            text += f" {rng.choice(texts()['no_value'])}"
        elif kind.default is MISSING:
            text = rng.choice((f"{text} Optional.", f"(Optional) {text}"))
        elif rng.random() < profile.default_share:
            document["default"] = kind.default
        if kind.default is not MISSING:
            said = rng.choice(("Default is {}.", "Defaults to {}.", "Optional, default is {}."))
            text += f" {said.format(repr(kind.default))}"
    return {"type": document.pop("type"), "description": text, **document}


def _typed(schema: Mapping[str, Any], kind: ArgumentKind, profile: CategoryProfile) -> Doc:
    """Return the types of a schema and of what is in it, in the category's language."""
    own = schema.get("format", kind.type)
    document: Doc = {"type": profile.types.get(own, kind.type)}
    if kind.item is not None:
        inner = _typed(schema["items"], kind.item, profile)
        document["items"] = inner
    if kind.properties:
        document["properties"] = {
            name: {
                **_typed(schema["properties"][name], each, profile),
                "description": each.description,
            }
            for name, each in kind.properties.items()
        }
        document["required"] = list(schema["required"])
    if profile.types and kind.item is not None and "properties" in document["items"]:
        document["items"].pop("required", None)
    return document
